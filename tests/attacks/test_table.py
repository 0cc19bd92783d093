from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.table import ATTACKS, RFC_9700, Attack
from tests.faults.test_table import functions_of

TESTS = Path(__file__).parents[1]
ELSEWHERE = {"test_table.py"}


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: f"{attack.source} {attack.attack}")
def test_every_test_that_rules_an_attack_out_exists(attack: Attack) -> None:
    assert attack.tests
    for name in attack.tests:
        file, _, function = name.partition("::")
        assert function in functions_of(TESTS / file), name


def test_every_test_of_this_room_rules_an_attack_out_or_is_its_long_form() -> None:
    named = {name for attack in ATTACKS for name in attack.tests}
    for file in sorted(Path(__file__).parent.glob("test_*.py")):
        if file.name in ELSEWHERE:
            continue
        for function in functions_of(file):
            if function.startswith("test_") and "thousand" not in function:
                assert f"attacks/{file.name}::{function}" in named, function


def test_every_attack_of_rfc_9700_is_here() -> None:
    texts = [attack.attack for attack in ATTACKS if attack.source == RFC_9700]
    numbers = {word.rstrip(",") for text in texts for word in text.split() if word.startswith("4.")}
    assert numbers == {f"4.{number}" for number in range(1, 18)}
