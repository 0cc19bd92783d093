"""Names are judged in any script."""

from __future__ import annotations

import pytest

from app.memory.analysis.naming import alike_key, is_generic, is_meaningless, leading_reference, words_of


@pytest.mark.parametrize("name", ["Go", "R", "C", "C#", "C++", "日本", "Ü", "한", "Ng"])
@pytest.mark.shows("graph_validate", 3)
def test_a_short_real_name_is_no_fault(name: str) -> None:
    """W-M26: "Go" and "R" were flagged as too short."""
    assert not is_meaningless(name)
    assert not is_generic(name)


@pytest.mark.parametrize("name", ["7", "--", "?!", "42"])
def test_a_short_name_without_a_letter_is(name: str) -> None:
    assert is_meaningless(name)


def test_words_for_anything_are_generic_in_any_case_and_width() -> None:
    assert all(map(is_generic, ["Thing", "  IT ", "Ｓｙｓｔｅｍ", "unknown"]))
    assert not is_generic("Thing Co")


def test_a_short_name_that_points_is_reference_language() -> None:
    assert leading_reference("The new server") == "the"
    assert leading_reference("My   Laptop") == "my"
    assert leading_reference("Theo Laptop") is None
    assert leading_reference("The " + "very " * 10 + "long title of a book") is None
    assert leading_reference("The") is None


def test_what_differs_in_case_separators_and_accents_alone_is_alike() -> None:
    assert alike_key("Graph Memory") == alike_key("graph_memory") == alike_key("GraphMémory")
    assert len({alike_key(name) for name in ("C", "C++", "C#", "日本", "日", "!", "?")}) == 7


def test_of_a_long_name_the_beginning_is_folded_and_the_rest_still_tells_it_apart() -> None:
    """Folding 500 characters takes a millisecond, and there are many names."""
    long = "Atlas-Projekt " * 8
    assert alike_key(f"{long}one") == alike_key(f"{long.replace('-', ' ', 3)}ONE".upper())
    assert alike_key(f"{long}one") != alike_key(f"{long}two")
    assert len(words_of("word " * 100)) == 20
    assert not is_generic("thing" * 100)
