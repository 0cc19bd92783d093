from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.faults.source import SOURCE_FAULTS
from tests.faults.table import FAULTS, Fault

TESTS = Path(__file__).parents[1]
ABSENT = {25, 26}
"""Kinds that need what is not here: notes with links and front matter."""


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.number}")
def test_every_test_that_rules_a_fault_out_exists(fault: Fault) -> None:
    assert fault.tests
    for name in fault.tests:
        file, _, function = name.partition("::")
        assert function in functions_of(TESTS / file), name


@pytest.mark.parametrize("fault", SOURCE_FAULTS, ids=lambda fault: f"W-M{fault.number:02}")
def test_every_test_that_rules_a_fault_of_the_source_out_exists(fault: Fault) -> None:
    test_every_test_that_rules_a_fault_out_exists(fault)


def test_every_fault_of_the_source_is_here_once() -> None:
    assert [fault.number for fault in SOURCE_FAULTS] == list(range(36))


def test_every_kind_is_here_once_or_named_as_absent() -> None:
    numbers = [fault.number for fault in FAULTS]
    assert numbers == sorted(set(numbers))
    assert {*numbers, *ABSENT} == set(range(1, 31))
    assert not ABSENT.intersection(numbers)


def functions_of(path: Path) -> set[str]:
    tree = ast.parse(path.read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
