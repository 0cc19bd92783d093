"""When a relation holds, decided by validity and never by arrival."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.timeline import SINGLE_VALUED, Relation, Said, Triple, assert_relation

NOW = datetime(2026, 5, 1, tzinfo=UTC)


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def say(known: dict[Triple, Relation], target: str, when: datetime | None, **more: object) -> Relation:
    relation = str(more.pop("relation", "WORKS_AT"))
    said = Said("ann", relation, target, 0.5, valid_at=when, exclusive=relation in SINGLE_VALUED, **more)  # type: ignore[arg-type]
    return assert_relation(known, said, NOW).relation


def current(known: dict[Triple, Relation]) -> set[str]:
    return {relation.target for relation in known.values() if relation.current}


def test_a_newer_value_ends_the_older_one_at_its_own_beginning() -> None:
    known: dict[Triple, Relation] = {}
    old = say(known, "acme", year(2020))
    say(known, "globex", year(2022))
    assert current(known) == {"globex"}
    assert (old.invalid_at, old.ended_at) == (year(2022), NOW)


@pytest.mark.shows("graph_relate", 7)
def test_a_late_older_fact_is_stored_as_already_ended() -> None:
    known: dict[Triple, Relation] = {}
    say(known, "globex", year(2022))
    late = say(known, "acme", year(2020))
    assert current(known) == {"globex"}
    assert late.invalid_at == year(2022)


@pytest.mark.shows("graph_relate", 8)
def test_asserting_an_ended_relation_again_makes_it_current_and_keeps_its_past() -> None:
    known: dict[Triple, Relation] = {}
    first = say(known, "acme", year(2020))
    say(known, "globex", year(2022))
    say(known, "acme", year(2024))
    assert current(known) == {"acme"}
    assert first.past == [
        {
            "valid_at": "2020-01-01T00:00:00Z",
            "invalid_at": "2022-01-01T00:00:00Z",
            "ingested_at": "2026-05-01T00:00:00Z",
            "ended_at": "2026-05-01T00:00:00Z",
            "weight": 0.5,
        }
    ]


@pytest.mark.shows("graph_relate", 6)
def test_many_values_stay_where_a_relation_has_many() -> None:
    known: dict[Triple, Relation] = {}
    for target in ("tea", "milk"):
        say(known, target, year(2022), relation="PREFERS")
    assert current(known) == {"tea", "milk"}


@pytest.mark.shows("graph_relate", 6)
def test_supersede_ends_others_even_without_a_moment_and_false_never_does() -> None:
    known: dict[Triple, Relation] = {}
    say(known, "tea", None, relation="PREFERS")
    say(known, "milk", None, relation="PREFERS", supersede=True)
    assert current(known) == {"milk"}
    say(known, "acme", year(2020))
    say(known, "globex", year(2022), supersede=False)
    assert current(known) == {"milk", "acme", "globex"}


@pytest.mark.shows("graph_relate", 9)
def test_without_a_moment_nothing_ends() -> None:
    known: dict[Triple, Relation] = {}
    say(known, "acme", year(2020))
    say(known, "globex", None)
    assert current(known) == {"acme", "globex"}


def test_a_relation_without_a_moment_is_the_older_one() -> None:
    known: dict[Triple, Relation] = {}
    old = say(known, "acme", None)
    say(known, "globex", year(1990))
    assert current(known) == {"globex"}
    assert old.invalid_at == year(1990)


def test_at_the_same_moment_the_later_word_counts() -> None:
    known: dict[Triple, Relation] = {}
    say(known, "acme", year(2020))
    say(known, "globex", year(2020))
    assert current(known) == {"globex"}


def test_past_is_bounded() -> None:
    known: dict[Triple, Relation] = {}
    for number in range(120):
        say(known, "ab"[number % 2], year(1900 + number))
    assert all(len(relation.past) <= 50 for relation in known.values())


def test_weights_take_the_maximum_and_grow_by_a_mention_up_to_one() -> None:
    known: dict[Triple, Relation] = {}
    for weight, expected in ((0.5, 0.5), (0.9, 0.9), (0.2, 0.95), (0.2, 1.0), (0.2, 1.0)):
        relation = assert_relation(known, Said("a", "USES", "b", weight), NOW).relation
        assert abs(relation.weight - expected) < 1e-9


@given(
    st.lists(st.sampled_from("abc"), min_size=1, max_size=8).flatmap(
        lambda targets: st.permutations(list(enumerate(targets)))
    )
)
def test_the_current_value_does_not_depend_on_the_order_of_arrival(arrivals: list[tuple[int, str]]) -> None:
    known: dict[Triple, Relation] = {}
    for day, target in arrivals:
        say(known, target, year(2000) + timedelta(days=day))
    assert current(known) == {max(arrivals)[1]}
    for relation in known.values():
        assert relation.invalid_at is None or relation.valid_at is None or relation.valid_at <= relation.invalid_at
