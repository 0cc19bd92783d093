"""A name finds its entity: exactly, by alias, or misspelt."""

from __future__ import annotations

import pytest

from app.errors import InvalidInput
from app.graph.lookup import resolve
from tests.graph.world import entity, put

PEOPLE = ["Caroline Smith", "Melanie", "Graph Memory", "Ann", "Kubernetes", "Jon Doe", "Jan Doe", "Grüße Gott"]


async def found(session, *names, fuzzy=True):
    resolutions = await resolve(session.read, names, fuzzy=fuzzy)
    return [(one.how, one.id) for one in (resolutions[name] for name in names)]


async def test_names_resolve_in_one_round_trip(tenant, open_session):
    session = open_session(tenant)
    await put(session, [entity(name, "Person") for name in PEOPLE], aliases=[("Mel", "Melanie")])
    assert await found(session, "graph_memory", "Mel", "caroline smith", "Nobody Known") == [
        ("id", "graph-memory"),
        ("alias", "melanie"),
        ("id", "caroline-smith"),
        ("unknown", None),
    ]


@pytest.mark.parametrize(("name", "expected"), [
    ("Melani", "melanie"),
    ("Mleanie", "melanie"),
    ("Melabie", "melanie"),
    ("Melannie", "melanie"),
    ("Grap Memory", "graph-memory"),
    ("Kubernets", "kubernetes"),
    ("Kubernetis", "kubernetes"),
    ("Kubrnets", "kubernetes"),
    ("Ubernetess", "kubernetes"),
    ("Carolyne Smith", "caroline-smith"),
    ("Caroline", "caroline-smith"),
    ("grusse gott", "grüsse-gott"),
])  # fmt: skip
async def test_a_typing_error_still_finds(tenant, open_session, name, expected):
    session = open_session(tenant)
    await put(session, [entity(one, "Person") for one in PEOPLE])
    assert await found(session, name) == [("fuzzy", expected)]
    assert await found(session, name, fuzzy=False) == [("unknown", None)]


@pytest.mark.parametrize("name", ["Anm", "Mexanxe", "Cubernitess", "Graph", "C++", "*", "~2", "/.*/"])
async def test_what_is_too_far_away_is_not_guessed(tenant, open_session, name):
    session = open_session(tenant)
    await put(
        session, [entity(one, "Person") for one in ["Ann", "Melanie", "Kubernetes", "Graphs of the far north side"]]
    )
    assert await found(session, name) == [("unknown", None)]


async def test_equally_near_names_are_ambiguous(tenant, open_session):
    session = open_session(tenant)
    await put(session, [entity(one, "Person") for one in ("Marta", "Maria")])
    resolution = (await resolve(session.read, ["Marla"]))["Marla"]
    assert (resolution.how, resolution.id) == ("ambiguous", None)
    assert [one.id for one in resolution.candidates] == ["maria", "marta"]


async def test_names_of_hidden_partitions_never_resolve(tenant, open_session):
    await put(open_session(tenant, layers=("h",), write_layer="h"), [entity("Melanie")], aliases=[("Mel", "Melanie")])
    await put(open_session(tenant + "x"), [entity("Melanie")])
    assert await found(open_session(tenant), "Melanie", "Mel", "Melani") == [("unknown", None)] * 3


async def test_a_hundred_foreign_near_names_do_not_use_up_the_search(tenant, open_session):
    await put(open_session(tenant), [entity("Melanie")])
    letters = "abcdefghijklmnopqrstuvwxyz"
    await put(
        open_session(tenant + "x"), [entity(f"Mel{a}nie") for a in letters] + [entity(f"Melani{a}") for a in letters]
    )
    assert await found(open_session(tenant), "Melanix") == [("fuzzy", "melanie")]


async def test_a_caller_who_may_read_nothing_finds_nothing(tenant, open_session):
    await put(open_session(tenant), [entity("Melanie")], aliases=[("Mel", "Melanie")])
    nobody = open_session(tenant, layers=(), write_layer=None)
    assert await found(nobody, "Melanie", "Mel", "Melani") == [("unknown", None)] * 3


async def test_a_blank_name_is_refused(tenant, open_session):
    with pytest.raises(InvalidInput):
        await resolve(open_session(tenant).read, [" "])


async def test_words_of_any_length_are_sought_misspelt_without_tiring_the_engine(tenant, open_session):
    session = open_session(tenant)
    name = "Donaudampfschifffahrtselektrizitaetenhauptbetriebswerkbauunter"
    await put(session, [entity(name, "Organization")])
    assert await found(session, name.replace("Donau", "Donua"), name[:-1] + "q") == [("fuzzy", name.lower())] * 2
    letters = "abcdefghijklmnopqrstuvwxyz"
    long = ["".join(letters[(word * 7 + at * at) % 26] for at in range(64)) for word in range(7)]
    odd = [long[0], " ".join(long), "a" * 64, " ".join("a" * (60 - number) for number in range(7)), "ab" * 32]
    assert await found(session, *odd) == [("unknown", None)] * len(odd)
