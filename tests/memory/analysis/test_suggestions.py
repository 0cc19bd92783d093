"""``graph_merge_suggestions``: which entities may be one."""

from __future__ import annotations

from typing import Any

import pytest

from app.errors import InvalidInput
from app.memory.analysis import suggestions as module
from app.memory.service import MemoryService
from app.store.database import Database
from tests.memory.analysis.conftest import do, entity, relation
from tests.memory.conftest import Agent

TEXT = "graph database for agents that remember what people say"


async def _doubled(agent: Agent) -> None:
    await agent.batch(
        [
            entity("Graph Memory", "Project", description=TEXT),
            entity("Memory Graph", "Project", description=TEXT),
            entity("Graph Memory tool", "Concept", description=TEXT),
            entity("Ann", "Person"),
            entity("Vim", "Object"),
        ],
        [
            relation("Ann", "WORKS_ON", "Graph Memory"),
            relation("Ann", "WORKS_ON", "Memory Graph"),
            relation("Ann", "USES", "Vim"),
            relation("Graph Memory", "USES_TECH", "Vim"),
        ],
    )


@pytest.mark.shows("graph_merge_suggestions", 1, 2, 3, 5, 6)
async def test_a_pair_that_is_one_thing_is_suggested_with_its_signals(agent: Agent) -> None:
    await _doubled(agent)
    answer = await do(agent, "graph_merge_suggestions", min_score=0.5)
    assert len(answer["suggestions"]) == 1
    found = answer["suggestions"][0]
    assert (found["entity_a"]["id"], found["entity_b"]["id"]) == ("graph-memory", "memory-graph")
    assert (found["entity_a"]["edge_count"], found["entity_b"]["edge_count"]) == (2, 1)
    signals = found["signals"]
    assert signals["name_similarity"] == 1.0
    assert signals["embedding_similarity"] == pytest.approx((1 + signals["cosine"]) / 2, abs=1e-4)
    assert [shared["id"] for shared in signals["shared_neighbors"]] == ["ann"]
    assert signals["shared_neighbors"][0] == {"id": "ann", "relation": "WORKS_ON", "degree": 3, "weight": 0.4765}
    expected = 0.4 * signals["embedding_similarity"] + 0.4 * signals["neighbor_jaccard"] + 0.2
    assert found["score"] == pytest.approx(expected, abs=2e-4)
    assert found["score"] == round(found["score"], 4)
    assert found["recommended_action"] == "review"
    assert answer["scale"] == "(1+cosine)/2"
    assert (answer["threshold_used"], answer["scope"]) == (0.5, {"global": True})
    assert answer["total_pairs_evaluated"] >= 1


@pytest.mark.shows("graph_merge_suggestions", 5, 7)
async def test_scope_threshold_limit_and_weights_are_the_callers(agent: Agent) -> None:
    await _doubled(agent)
    one = await do(agent, "graph_merge_suggestions", min_score=0.5, entity_id="memory graph")
    assert (len(one["suggestions"]), one["scope"]) == (1, {"entity_id": "memory graph", "global": False})
    assert (await do(agent, "graph_merge_suggestions", min_score=0.5, entity_type="project"))["suggestions"]
    narrowings: list[dict[str, Any]] = [{"entity_id": "Ann"}, {"entity_type": "Person"}, {"min_score": 0.99}]
    for narrowed in narrowings:
        asked: dict[str, Any] = {"min_score": 0.5, **narrowed}
        assert (await do(agent, "graph_merge_suggestions", **asked))["suggestions"] == []
    unknown = await do(agent, "graph_merge_suggestions", entity_id="nobody of this name")
    assert (unknown["suggestions"], "No entity fits" in unknown["note"]) == ([], True)
    by_name = await do(
        agent, "graph_merge_suggestions", weights={"embedding": 0, "neighbor_jaccard": 0, "name": 1}, min_score=0.9
    )
    assert [found["score"] for found in by_name["suggestions"]] == [1.0]


@pytest.mark.shows("graph_merge_suggestions", 8)
async def test_it_writes_nothing_whatever_log_to_audit_says(agent: Agent, database: Database) -> None:
    await _doubled(agent)
    before = await _everything(database)
    await do(agent, "graph_merge_suggestions", min_score=0.5, log_to_audit=True)
    assert await _everything(database) == before


async def _everything(database: Database) -> Any:
    async with database.driver.session(database=database.name) as session:
        result = await session.run("MATCH (n) WHERE NOT n:_Tenant RETURN count(n) AS many, sum(size(keys(n))) AS keys")
        return (await result.single(strict=True)).data()


@pytest.mark.shows("graph_merge_suggestions", 9)
async def test_without_a_model_names_alone_lead_to_pairs(plain_agent: Agent) -> None:
    await _doubled(plain_agent)
    answer = await do(plain_agent, "graph_merge_suggestions", min_score=0.3)
    assert [found["signals"]["cosine"] for found in answer["suggestions"]] == [None]
    assert "Without an embedding model" in answer["note"]


@pytest.mark.shows("graph_merge_suggestions", 10)
async def test_a_large_memory_is_looked_at_through_its_own_part_of_the_index(
    agent: Agent, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-M11: the index was asked across tenants and filtered afterwards, so small tenants found nothing."""
    monkeypatch.setattr(module, "_EACH_WITH_EACH", 1)
    monkeypatch.setattr(module, "_SEEDS", 2)
    await _doubled(agent)
    foreign = Agent(agent.service, f"{agent.tenant}x", ("",), "")
    await foreign.batch([entity(f"Graph Memory {number}", "Project", description=TEXT) for number in range(30)])
    found: list[tuple[str, str]] = []
    cursor: str | None = None
    for _ in range(5):
        more: dict[str, Any] = {} if cursor is None else {"cursor": cursor}
        answer = await do(agent, "graph_merge_suggestions", min_score=0.5, **more)
        found += [(one["entity_a"]["id"], one["entity_b"]["id"]) for one in answer["suggestions"]]
        cursor = answer.get("next_cursor")
        if cursor is None:
            break
    assert set(found) == {("graph-memory", "memory-graph")}
    assert cursor is None
    with pytest.raises(InvalidInput):
        await do(agent, "graph_merge_suggestions", cursor="made up")


@pytest.mark.shows("graph_merge_suggestions", 11)
async def test_ended_relations_and_hidden_layers_count_for_nothing(service: MemoryService, tenant: str) -> None:
    """W-M14: neighbour sets held what has ended."""
    service.embedder.identity = None
    wide, hidden = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("b",), "b")
    people = [entity("Ann Lee", "Person"), entity("Lee, Ann", "Person")]
    await wide.batch(people)
    for one in ("Ann Lee", "Lee, Ann"):
        await wide.relate(one, "WORKS_AT", "Acme", valid_at="2020-01-01")
    before = (await do(wide, "graph_merge_suggestions", min_score=0.1))["suggestions"][0]
    assert before["signals"]["neighbor_jaccard"] == 1.0
    await hidden.relate("Ann Lee", "KNOWS", "Somebody")
    assert (await do(wide, "graph_merge_suggestions", min_score=0.1))["suggestions"][0] == before
    await wide.relate("Ann Lee", "WORKS_AT", "Bolt", valid_at="2022-01-01")
    after = (await do(wide, "graph_merge_suggestions", min_score=0.1))["suggestions"][0]
    assert after["signals"]["neighbor_jaccard"] == 0.0


@pytest.mark.shows("graph_merge_suggestions", 12)
async def test_what_the_limits_leave_uncompared_is_told(plain_agent: Agent, monkeypatch: pytest.MonkeyPatch) -> None:
    await plain_agent.batch([entity(f"{word} Atlas", "Project") for word in ("the", "our", "Atlas", "all")])
    whole = await do(plain_agent, "graph_merge_suggestions", min_score=0.05)
    assert (whole["truncated"], whole["total_pairs_evaluated"]) == (False, 3)
    for limit, most in (("_NAMES", 3), ("_BY_NAME", 2), ("_PAIRS", 2)):
        with monkeypatch.context() as patched:
            patched.setattr(module, limit, most)
            cut = await do(plain_agent, "graph_merge_suggestions", min_score=0.05)
            assert (cut["truncated"], cut["total_pairs_evaluated"]) == (True, 2), limit
            beside = await do(plain_agent, "graph_merge_suggestions", min_score=0.05, entity_id="all Atlas")
            assert beside["truncated"] == (limit == "_NAMES"), limit


async def _all_pages(agent: Agent, **asked: Any) -> tuple[list[tuple[str, str]], list[bool]]:
    """The pairs of all pages, and what each page says of being cut."""
    found: list[tuple[str, str]] = []
    cuts: list[bool] = []
    cursor: dict[str, str] = {}
    while len(cuts) < 50:
        answer = await do(agent, "graph_merge_suggestions", min_score=0.05, limit=100, **asked, **cursor)
        found += [(one["entity_a"]["id"], one["entity_b"]["id"]) for one in answer["suggestions"]]
        cuts.append(answer["truncated"])
        if "next_cursor" not in answer:
            break
        cursor = {"cursor": answer["next_cursor"]}
    return found, cuts


def _bounds(patched: pytest.MonkeyPatch, **bounds: int) -> None:
    """As those of 50,000 names, for a few dozen."""
    for bound, most in bounds.items():
        patched.setattr(module, f"_{bound}", most)


FIRST = [entity(f"{word} pale {kind}") for word in ("birch", "cedar", "elder", "hazel") for kind in ("leaf", "root")]
LIKEST = [
    entity(name)
    for word in ("thuja", "umbra", "viola", "yucca")
    for name in (f"{word} {word}vine", f"{word}vine {word}", f"{word} {word} {word}vine")
]
APART = [entity("acorn lime bark"), entity("zz bark lime"), entity("zz lime bark")]


@pytest.mark.shows("graph_merge_suggestions", 10, 12)
async def test_pages_tell_every_pair_by_name_once_though_the_likest_are_of_later_entities(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pairs were taken from the likest of all names, so that those of the first entities were lost without a word."""
    await plain_agent.batch([*FIRST, *LIKEST, *APART])
    whole, cuts = await _all_pages(plain_agent)
    assert (len(whole), cuts) == (len(set(whole)), [False])
    assert {("birch-pale-leaf", "birch-pale-root"), ("acorn-lime-bark", "zz-bark-lime")} <= set(whole)
    _bounds(monkeypatch, EACH_WITH_EACH=20, SEEDS=2, BY_NAME=8, PAIRS=12)
    paged, cuts = await _all_pages(plain_agent)
    assert sorted(paged) == sorted(whole)
    assert len(cuts) > 2
    assert not any(cuts)


@pytest.mark.shows("graph_merge_suggestions", 10, 12)
async def test_pages_tell_every_pair_once_where_few_of_many_names_have_vectors(
    agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pair whose entities belong to two pages was told on both."""
    await agent.batch([entity(name, description=TEXT) for name in ("aster", "ginkgo", "mallow", "zelkova")])
    recipe, agent.service.embedder.identity = agent.service.embedder.identity, None
    await agent.batch([*FIRST, *LIKEST, *APART])
    agent.service.embedder.identity = recipe
    asked = {"min_embedding_similarity": 0.7}
    whole, cuts = await _all_pages(agent, **asked)
    assert (len(whole), cuts) == (len(set(whole)), [False])
    assert {("aster", "zelkova"), ("ginkgo", "mallow"), ("acorn-lime-bark", "zz-bark-lime")} <= set(whole)
    _bounds(monkeypatch, EACH_WITH_EACH=20, SEEDS=2, BY_NAME=8, PAIRS=12)
    paged, cuts = await _all_pages(agent, **asked)
    assert sorted(paged) == sorted(whole)
    assert len(cuts) > 2
    assert not any(cuts)


@pytest.mark.shows("graph_merge_suggestions", 12)
async def test_a_page_tells_that_its_entities_have_more_pairs_than_it_looks_at(
    plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    await plain_agent.batch([*(entity(f"birch pale {kind}") for kind in ("bark", "leaf", "root", "stem")), *LIKEST])
    _bounds(monkeypatch, EACH_WITH_EACH=10, SEEDS=4, BY_NAME=5)
    paged, cuts = await _all_pages(plain_agent)
    assert cuts == [True] + [False] * (len(cuts) - 1)
    assert len([pair for pair in paged if pair[0].startswith("birch")]) == 5
    assert len([pair for pair in paged if not pair[0].startswith("birch")]) == len(LIKEST)
