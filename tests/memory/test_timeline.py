"""When a relation holds, decided by validity and never by arrival."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Literal

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.memory.moments import moment_text
from app.memory.past.view import view
from app.memory.timeline import SINGLE_VALUED, Relation, Said, Triple, assert_relation

NOW = datetime(2026, 5, 1, tzinfo=UTC)
MOMENTS = ("valid_at", "invalid_at", "ingested_at", "ended_at")


def year(number: int) -> datetime:
    return datetime(number, 1, 1, tzinfo=UTC)


def say(
    known: dict[Triple, Relation], target: str, when: datetime | None, *, now: datetime = NOW, **more: object
) -> Relation:
    relation = str(more.pop("relation", "WORKS_AT"))
    said = Said("ann", relation, target, 0.5, valid_at=when, exclusive=relation in SINGLE_VALUED, **more)  # type: ignore[arg-type]
    return assert_relation(known, said, now).relation


def seen(known: dict[Triple, Relation], at: datetime, basis: Literal["validity", "ingestion"]) -> set[str]:
    """Targets that held at the moment, as the reading tools find them."""
    found = set()
    for relation in known.values():
        moments = {key: moment_text(getattr(relation, key)) for key in MOMENTS}
        held = {**moments, "past": orjson.dumps(relation.past).decode()}
        if view(at, basis)._then({"properties": held}) is not None:
            found.add(relation.target)
    return found


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


@given(st.lists(st.tuples(st.integers(0, 11), st.sampled_from("abcd")), min_size=1, max_size=9))
def test_what_was_true_and_what_was_believed_are_what_the_tellings_say(tellings: list[tuple[int, str]]) -> None:
    """Told in any order: at a moment the latest beginning before it counts, of equal ones the later word."""
    known: dict[Triple, Relation] = {}
    heard: list[tuple[int, int, str]] = []
    for day, (month, target) in enumerate(tellings):
        say(known, target, year(2000 + month), now=NOW + timedelta(days=day))
        heard.append((month, day, target))
        for past_day in range(day + 1):
            believed = max(each for each in heard if each[1] <= past_day)[2]
            assert seen(known, NOW + timedelta(days=past_day, hours=1), "ingestion") == {believed}
    for month in range(12):
        true = [target for begun, _, target in sorted(heard) if begun <= month][-1:]
        assert seen(known, year(2000 + month) + timedelta(days=1), "validity") == set(true)


def test_a_corrected_end_was_none_the_less_known_before() -> None:
    known: dict[Triple, Relation] = {}
    days = [NOW + timedelta(days=day) for day in range(12)]
    x = say(known, "x", year(2020), now=days[1])
    z = say(known, "z", year(2024), now=days[2])
    say(known, "y", year(2022), now=days[10])
    assert (x.invalid_at, x.ended_at) == (year(2022), days[2])
    assert z.current
    for day, believed in ((1, "x"), (3, "z"), (5, "z"), (11, "z")):
        assert seen(known, days[day] + timedelta(hours=1), "ingestion") == {believed}


@pytest.mark.parametrize("relation", ["WORKS_AT", "USES"])
@pytest.mark.parametrize("first", [None, year(2020)])
def test_what_holds_and_is_said_again_of_a_later_time_was_true_before_it_too(
    relation: str, first: datetime | None
) -> None:
    known: dict[Triple, Relation] = {}
    say(known, "acme", first, relation=relation)
    for number in range(2023, 2026):
        held = say(known, "acme", year(number), relation=relation)
    assert held.valid_at == year(2025)
    for number in range(2020, 2026):
        assert seen(known, year(number) + timedelta(days=9), "validity") == {"acme"}
    assert seen(known, year(2019), "validity") == (set() if first else {"acme"})
    assert len(held.past) == (3 if relation == "WORKS_AT" else 1)


def test_a_mention_of_every_day_leaves_room_for_the_beginning() -> None:
    for relation in ("WORKS_AT", "USES"):
        known: dict[Triple, Relation] = {}
        for day in range(200):
            held = say(known, "acme", year(2020) + timedelta(days=day), relation=relation)
        assert len(held.past) <= 50
        assert seen(known, year(2020), "validity") == {"acme"}


def test_a_relation_that_ended_and_begins_anew_is_another_time() -> None:
    known: dict[Triple, Relation] = {}
    say(known, "acme", year(2020))
    say(known, "globex", year(2022))
    say(known, "acme", year(2024))
    assert [seen(known, year(number), "validity") for number in (2021, 2023, 2025)] == [{"acme"}, {"globex"}, {"acme"}]


def test_a_mention_adds_to_what_is_left_and_not_to_what_was() -> None:
    left = 0.8 * 0.997**50
    for state, held in ((None, 0.8), ([0.8, NOW.timestamp(), 50.0, left], left)):
        stored = Relation("a", "USES", "b", held, NOW, NOW, decay_state=state)
        said = Said("a", "USES", "b", 0.1)
        relation = assert_relation({said.triple: stored}, said, NOW + timedelta(days=50), rate=0.997).relation
        assert (relation.weight, relation.decay_state) == (left + 0.05, None)
