"""Numbers and their words agree."""

from __future__ import annotations

import pytest

from app.counting import counted


@pytest.mark.parametrize(
    ("number", "words", "said"),
    [
        (0, ("secret",), "0 secrets"),
        (1, ("secret",), "1 secret"),
        (2, ("conversation",), "2 conversations"),
        (1, ("entity", "entities"), "1 entity"),
        (1200, ("entity", "entities"), "1,200 entities"),
    ],
)
def test_a_number_and_its_word_agree(number: int, words: tuple[str, ...], said: str) -> None:
    assert counted(number, *words) == said
