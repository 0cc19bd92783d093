"""Search finds what is there, in every script, and nobody else's writes move it."""

from __future__ import annotations

import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.embedding.model import EmbeddingIdentity
from app.errors import DeadlineExceeded, EmbeddingUnavailable, InvalidInput
from app.graph.candidates import FEW_VECTORS
from app.graph.search import SearchOptions, search, text_search
from tests.graph.world import RECIPE, around, entity, put

pytestmark = pytest.mark.usefixtures("vector_index")


class Axis:
    """An embedder whose every query is the first axis: the distances of stored vectors are then known exactly."""

    identity = EmbeddingIdentity("test-model", 384, "1")
    state = "ready"

    async def query(self, text, deadline):
        return around(0, 0.0)[0]


class Away:
    identity = None
    state = "away"

    async def query(self, text, deadline):
        raise EmbeddingUnavailable("there is no model")


assert Axis.identity.key == RECIPE


def ids(found):
    return [hit.entity["id"] for hit in found]


async def by_words(session, query, **more):
    return (await text_search(session, query, **more)).hits


LONG = "filler words that say nothing of note " * 240
assert len(LONG) > 9000


@pytest.mark.parametrize(("query", "content"), [
    ("xylophone", LONG + " at last a xylophone"),
    ("학교", "나는 매일 학교에 갑니다"),
    ("हिन्दी", "मैं घर पर हिन्दी बोलता हूँ"),
    ("ข้าวผัด", "ฉันชอบกินข้าวผัดกุ้ง"),
    ("東京", "去年東京都に引っ越しました"),
    ("قهوة", "أنا أحب القهوة في الصباح"),
    ("Привет", "она сказала: ПРИВЕТ!"),
])  # fmt: skip
async def test_one_word_finds_the_text_that_holds_it(tenant, open_session, query, content):
    session = open_session(tenant)
    await put(
        session, [entity("needle", "Fact", content=content), entity("hay", "Fact", content="nothing of the kind")]
    )
    assert ids(await by_words(session, query)) == ["needle"]


async def test_evidence_and_unknown_properties_are_searched(tenant, open_session):
    session = open_session(tenant)
    await put(session, [entity("one", evidence="she mentioned the zeppelin"), entity("two", extra_note="a gondola")])
    assert ids(await by_words(session, "zeppelin")) == ["one"]
    assert ids(await by_words(session, "gondola")) == ["two"]


HOSTILE = [
    "/",
    'C++ (old) "x', "a AND", "foo:bar", "*", "~", "partition:(p1) OR names:*", "[a TO b]", "{",
    "\\", "a\x00b", "^9",
    "🎉", "\u202eabc", "`MATCH (n)`", "'; DROP", "word " * 200, "x" * 5000,
    "7f1e1c0a-2b1c-4b4e-9a55-0242ac120002", "\ud800",
]  # fmt: skip


@pytest.mark.parametrize("query", HOSTILE)
async def test_no_query_is_an_error(tenant, open_session, query):
    session = open_session(tenant)
    await put(session, [entity("a thing")])
    await by_words(session, query)
    await search(session, Axis(), query, SearchOptions())


async def test_whatever_is_typed_never_reaches_the_parser(tenant, open_session):
    session = open_session(tenant)
    await put(session, [entity("a thing")])
    other = open_session(tenant + "x")
    await put(other, [entity("secret thing", content="partition names words")])
    found = []

    @settings(max_examples=60, deadline=None)
    @given(st.text(string.printable + "ßé日本ก🎉", min_size=1, max_size=60))
    def collect(text):
        if text.strip():
            found.append(text)

    collect()
    for query in found:
        assert "secret-thing" not in ids(await by_words(session, query))


@pytest.mark.parametrize("query", ["", "  ", "\n"])
async def test_a_blank_query_is_refused(tenant, open_session, query):
    with pytest.raises(InvalidInput, match="blank"):
        await by_words(open_session(tenant), query)


async def test_without_layers_nothing_is_read(tenant, open_session):
    await put(open_session(tenant), [entity("thing")])
    assert await by_words(open_session(tenant, layers=(), write_layer=None), "thing") == []


async def test_siblings_are_one_hit_and_count_once(tenant, open_session):
    for layer in ("", "a", "b"):
        await put(
            open_session(tenant, layers=(layer,), write_layer=layer), [entity("Apollo", content=f"rocket {layer}")]
        )
    await put(open_session(tenant), [entity(f"rocket {place}") for place in range(3)])
    found = await by_words(open_session(tenant, layers=("", "a", "b")), "rocket", k=4)
    assert ids(found) == ["apollo", "rocket-0", "rocket-1", "rocket-2"]
    assert found[0].entity["layers"] == ["tenant", "a", "b"]
    whole = await search(open_session(tenant, layers=("", "a", "b")), Away(), "rocket", SearchOptions(k=4))
    assert whole.hits[0].entity["content"] == "rocket a"
    alone = await by_words(open_session(tenant, layers=("b",), write_layer=None), "rocket")
    assert [hit.entity["layers"] for hit in alone] == [["b"]]


async def test_the_rarer_word_weighs_more(tenant, open_session):
    session = open_session(tenant)
    common = [entity(f"n{place:02}", content="meeting") for place in range(20)]
    await put(session, [*common, entity("zz", content="telescope")])
    assert ids(await by_words(session, "meeting telescope"))[0] == "zz"


async def test_a_named_entity_is_found_by_alias_and_lifts_what_is_related_to_it(tenant, open_session):
    session = open_session(tenant)
    facts = [entity(f"s/{place}: said", "Fact", content="likes painting") for place in (10, 20)]
    await put(
        session,
        [entity("Caroline", "Person"), entity("Melanie", "Person"), *facts],
        relations=[("s/10: said", "Melanie"), ("s/20: said", "Caroline")],
        aliases=[("Caro", "Caroline")],
    )
    found = await search(session, Away(), "Does Caro like painting?", SearchOptions(types=("Fact",), explain=True))
    assert ids(found.hits)[0] == "s-20-said"
    assert found.hits[0].why["related_to"] == ["caroline"]
    assert found.explain["named"] == ["caroline"]
    assert "caroline" in ids((await search(session, Away(), "Who is Caro?", SearchOptions())).hits)


async def test_what_stands_beside_a_hit_in_its_conversation_is_found(tenant, open_session):
    session = open_session(tenant)
    turns = ["hello", "where was the marathon?", "in Lisbon", "nice", "bye", "late"]
    await put(session, [
        entity(f"day/{place}: {text}", "Fact", content=text, source_ref=f"day/{place}")
        for place, text in enumerate(turns, 1)
    ])  # fmt: skip
    found = await search(session, Away(), "marathon", SearchOptions(explain=True))
    assert [hit.entity["content"] for hit in found.hits] == [turns[1], turns[0], turns[2], turns[3]]
    assert found.mode == "text"
    assert "no model" in (found.note or "")
    assert "beside" in found.hits[1].why


async def test_similarity_is_a_cosine_and_score_its_half_scale(tenant, open_session):
    session = open_session(tenant)
    opposite = [-value for value in around(0, 0.0)[0]]
    await put(session, [entity("near", vector=around(0, 0.0)[0]), entity("far", vector=opposite)])
    found = (await search(session, Axis(), "anything", SearchOptions(explain=True))).hits
    assert [(hit.entity["id"], hit.similarity, hit.score) for hit in found] == [("near", 1.0, 1.0), ("far", -1.0, 0.0)]
    assert found[0].why["vector"] == {"rank": 1, "value": 1.0}
    kept = await search(session, Axis(), "anything", SearchOptions(min_similarity=0.5))
    assert ids(kept.hits) == ["near"]
    assert ids((await search(session, Axis(), "anything", SearchOptions(min_cosine=-1.0))).hits) == ["near", "far"]


async def test_vectors_of_another_recipe_are_never_compared(tenant, open_session):
    session = open_session(tenant)
    old = entity("old", vector=around(0, 0.0)[0])
    old["fields"]["embedding_of"] = "another|384|1"
    await put(session, [old, entity("new", vector=around(1, 0.5)[0])])
    assert ids((await search(session, Axis(), "anything", SearchOptions())).hits) == ["new"]


def answer_of(found):
    return [(hit.entity, hit.rank, hit.similarity, hit.score, hit.fused, hit.why) for hit in found.hits]


@pytest.mark.parametrize("many", [300, pytest.param(3000, marks=pytest.mark.soak)])
async def test_foreign_writes_change_no_byte(tenant, open_session, many):
    session = open_session(tenant, layers=("", "a"))
    words = ["alpha", "beta", "gamma", "delta"]
    await put(session, [
        entity(f"n{place}", "Fact", content=f"{words[place % 4]} {words[place % 3]}", vector=vector,
               source_ref=f"s/{place}")
        for place, vector in enumerate(around(1, 1.0, 120))
    ])  # fmt: skip
    queries = ["alpha", "beta gamma", "delta of the n7", "nothing at all"]
    options = SearchOptions(k=20, explain=True)
    before = [answer_of(await search(session, Axis(), query, options)) for query in queries]
    vectors = around(2, 0.1, many // 2)
    foreign = [
        entity(f"f{place} alpha", content="alpha delta beta", vector=vector) for place, vector in enumerate(vectors)
    ]
    await put(open_session(tenant + "x"), foreign)
    await put(open_session(tenant, layers=("hidden",), write_layer="hidden"), foreign)
    assert [answer_of(await search(session, Axis(), query, options)) for query in queries] == before
    assert all(before[:3])


@pytest.mark.shows("graph_search", 8)
@pytest.mark.parametrize("many", [FEW_VECTORS + 200, pytest.param(5000, marks=pytest.mark.soak)])
async def test_a_crowd_around_the_query_starves_no_other_tenant_and_recall_is_kept(tenant, open_session, many):
    """Fault 23; and partition rule 21 above 500 vectors."""
    small = open_session(tenant)
    await put(small, [entity(f"mine {place}", vector=vector) for place, vector in enumerate(around(3, 2.0, 50))])
    options = SearchOptions(k=10)
    alone = answer_of(await search(small, Axis(), "zzz", options))
    crowd = open_session(tenant + "x")
    vectors = around(4, 1.0, many)
    await put(crowd, [entity(f"crowd {place}", vector=vector) for place, vector in enumerate(vectors)])
    assert answer_of(await search(small, Axis(), "zzz", options)) == alone
    assert len(alone) == 10
    found = await search(crowd, Axis(), "zzz", options)
    exact = sorted(range(many), key=lambda place: -vectors[place][0])[:10]
    assert {f"crowd-{place}" for place in exact} == set(ids(found.hits))


async def test_terms_that_everything_holds_are_required_together(tenant, open_session, monkeypatch):
    monkeypatch.setattr("app.graph.candidates.WHOLE_SET", 100)
    session = open_session(tenant)
    rows = [entity(f"n{place}", content="common" if place else "common shared") for place in range(110)]
    rows += [entity(f"m{place}", content="shared") for place in range(110)]
    await put(session, rows)
    assert ids(await by_words(session, "common shared")) == ["n0"]
    assert len(await by_words(session, "common", k=5)) == 5
    one = await text_search(session, "m7 m8 common", k=1)
    assert {*ids(one.hits), *one.beyond} == {"m7", "m8"}
    assert ids(await by_words(session, "m7 common"))[0] == "m7"


async def test_a_list_puts_its_outlines_in_the_order_of_the_whole_records(tenant, open_session, monkeypatch):
    monkeypatch.setattr("app.graph.candidates.WHOLE_SET", 20)
    words = ("brass", "copper", "tin", "zinc")
    rows = [
        entity(f"n{place}", ("Object", "Concept")[place % 2], content=" ".join(words[: place % 4 + 1]), confidence=rest)
        for place, rest in enumerate(number % 7 / 10 for number in range(60))
    ]
    for layer, part in (("", rows), ("a", rows[10:20])):
        await put(open_session(tenant, layers=("", "a"), write_layer=layer), part)
    session = open_session(tenant, layers=("", "a"))
    for query in ("zinc", "zinc tin copper", "brass", "brass copper tin zinc n7"):
        for types in ((), ("Object",)):
            whole = await search(session, Away(), query, SearchOptions(k=50, types=types))
            lean = await text_search(session, query, k=50, types=types)
            assert ids(lean.hits) == ids(whole.hits), query
            for one, other in zip(lean.hits, whole.hits, strict=True):
                assert one.entity.items() <= other.entity.items()


async def test_a_call_that_fails_says_why_as_one_error(tenant, open_session):
    late = open_session(tenant, seconds=0.0)
    with pytest.raises(DeadlineExceeded):
        await search(late, Axis(), "anything", SearchOptions())
