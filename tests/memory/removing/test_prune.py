"""``graph_prune``: preview and execute choose alike, rules stay, and all of it can be undone."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from app.errors import Conflict, InvalidInput
from app.memory.removing import prune as pruning
from app.memory.removing.queries import FITTING, FITTING_OF_THESE
from app.memory.service import MemoryService
from app.store.database import Database, TenantSession
from app.store.statement import Statement
from tests.memory.conftest import Agent
from tests.memory.doing import backdate, do, entries
from tests.memory.merging.conftest import undo


def _entity(name: str, confidence: float, type_: str = "Concept", **properties: Any) -> dict[str, Any]:
    return {"name": name, "type": type_, "properties": {"confidence": confidence, **properties}}


async def _faded(agent: Agent) -> None:
    """Two weak entities, one held by a strong relation, an orphan, a rule with weak relations, a weak relation."""
    await agent.batch(
        [
            _entity("strong", 0.9),
            _entity("other", 0.9),
            _entity("weak", 0.05),
            _entity("weaker", 0.01),
            _entity("held", 0.05),
            _entity("alone", 0.7),
            _entity("my rule", 0.02, "Preference", subtype="rule"),
        ],
        [
            {"from": "weak", "to": "strong", "relation": "USES", "weight": 0.04, "evidence": "faint whisper"},
            {"from": "held", "to": "strong", "relation": "USES", "weight": 0.6, "evidence": "loud shout"},
            {"from": "strong", "to": "other", "relation": "USES", "weight": 0.04},
            {"from": "strong", "to": "other", "relation": "PREFERS", "weight": 0.05},
            {"from": "strong", "to": "my rule", "relation": "PREFERS", "weight": 0.01},
        ],
    )


@pytest.mark.shows("graph_prune", 1, 2, 3)
async def test_a_preview_lists_what_would_go_and_changes_nothing(agent: Agent, database: Database) -> None:
    await _faded(agent)
    await backdate(database, agent, 31)
    before = await agent.stats()
    answer = await do(agent, "graph_prune")
    assert answer["mode"] == "preview"
    assert [(node["id"], node["edge_count"]) for node in answer["nodes_to_prune"]] == [
        ("alone", 0),
        ("weak", 1),
        ("weaker", 0),
    ]
    assert (
        answer["nodes_to_prune"][1] | {"type": "Concept", "name": "weak", "confidence": 0.05}
        == (answer["nodes_to_prune"][1])
    )
    assert answer["edges_to_prune"] == [
        {"from": "strong", "to": "other", "type": "USES", "weight": 0.04},
        {"from": "weak", "to": "strong", "type": "USES", "weight": 0.04},
    ]
    assert (answer["node_count"], answer["edge_count"], answer["remaining"]) == (3, 2, 0)
    assert await agent.stats() == before


@pytest.mark.shows("graph_prune", 4, 5, 6)
async def test_execute_takes_exactly_what_the_preview_lists_and_no_rule(agent: Agent, database: Database) -> None:
    """W-M24: execute deleted the relations of rules that the preview protects, and told no details."""
    await _faded(agent)
    await backdate(database, agent, 31)
    seen = await do(agent, "graph_prune")
    done = await do(agent, "graph_prune", mode="execute")
    assert (done["mode"], done["nodes_pruned"], done["edges_pruned"]) == ("executed", 3, 2)
    gone = [{"action": "deleted_node", "id": node["id"], "type": node["type"]} for node in seen["nodes_to_prune"]]
    cut = [
        {"action": "deleted_edge", "from": edge["from"], "to": edge["to"], "type": edge["type"]}
        for edge in seen["edges_to_prune"]
    ]
    assert done["details"] == [*gone, *cut]
    assert set(await agent.edges("strong")) == {
        ("held", "USES", "strong"),
        ("strong", "PREFERS", "other"),
        ("strong", "PREFERS", "my-rule"),
    }
    assert (await agent.entity("my rule"))["confidence"] == 0.02
    assert (await agent.entities(search="faint whisper"))["entities"] == []
    assert len((await agent.entities(search="loud shout"))["entities"]) == 2
    again = await do(agent, "graph_prune", mode="execute")
    assert (again["nodes_pruned"], again["edges_pruned"], again["undo_id"]) == (0, 0, None)


@pytest.mark.shows("graph_prune", 2)
async def test_age_and_thresholds_are_the_settings_unless_the_call_says(agent: Agent, database: Database) -> None:
    await _faded(agent)
    await backdate(database, agent, 29)
    assert "alone" not in str(await do(agent, "graph_prune"))
    assert "alone" in str(await do(agent, "graph_prune", max_age_days=20))
    assert "alone" not in str(await do(agent, "graph_prune", max_age_days=20, include_orphans=False))
    wide = await do(agent, "graph_prune", node_threshold=1, edge_threshold=1)
    assert {node["id"] for node in wide["nodes_to_prune"]} == {"other", "weak", "weaker", "held", "alone"}
    narrow = await do(agent, "graph_prune", node_threshold=0, edge_threshold=0)
    assert (narrow["node_count"], narrow["edge_count"]) == (0, 0)


@pytest.mark.shows("graph_prune", 7)
async def test_aliases_that_lead_nowhere_else_go_along(agent: Agent) -> None:
    await agent.batch(
        [_entity("weak", 0.05), _entity("Wk", 0.5, "Alias"), _entity("Both", 0.5, "Alias"), _entity("strong", 0.9)],
        [
            {"from": "Wk", "to": "weak", "relation": "ALIAS_OF", "weight": 0.04},
            {"from": "Both", "to": "weak", "relation": "ALIAS_OF", "weight": 0.04},
            {"from": "Both", "to": "strong", "relation": "RELATED_TO", "weight": 0.9},
        ],
    )
    done = await do(agent, "graph_prune", mode="execute")
    assert (done["nodes_pruned"], done["edges_pruned"], done["aliases_pruned"]) == (1, 2, 3)
    assert not (await agent.query("Wk"))["found"]
    assert (await agent.query("Both"))["found"]


@pytest.mark.shows("graph_prune", 8)
async def test_what_was_pruned_comes_back_whole(agent: Agent, database: Database) -> None:
    await _faded(agent)
    await backdate(database, agent, 31)
    names = ("strong", "other", "weak", "weaker", "alone")
    before = [await agent.entity(name) for name in names], await agent.edges("strong"), await agent.stats()
    done = await do(agent, "graph_prune", mode="execute")
    await undo(agent, done["undo_id"])
    assert ([await agent.entity(name) for name in names], await agent.edges("strong"), await agent.stats()) == before
    assert len((await agent.entities(search="faint whisper"))["entities"]) == 2


@pytest.mark.shows("graph_prune", 8)
@pytest.mark.shows("graph_undo", 12)
async def test_what_was_pruned_comes_back_after_a_decay_and_fades_with_the_next(
    agent: Agent, database: Database
) -> None:
    await _faded(agent)
    await backdate(database, agent, 20)
    before = await agent.entity("weak"), await agent.edges("weak")
    done = await do(agent, "graph_prune", mode="execute")
    assert (await do(agent, "graph_decay"))["nodes_decayed"] > 0
    await undo(agent, done["undo_id"])
    assert (await agent.entity("weak"), await agent.edges("weak")) == before
    assert (await do(agent, "graph_decay"))["nodes_decayed"] > 0
    assert (await agent.entity("weak"))["confidence"] == pytest.approx(0.05 * 0.999**20)


@pytest.mark.shows("graph_prune", 8)
async def test_mentions_of_what_stayed_do_not_stand_in_the_way_of_undoing(agent: Agent) -> None:
    await _faded(agent)
    done = await do(agent, "graph_prune", mode="execute", include_orphans=False)
    await agent.relate("strong", "USES", "other", weight=0.9, evidence="said since")
    with pytest.raises(Conflict, match="relation strong→USES→other is new"):
        await undo(agent, done["undo_id"])
    await do(agent, "graph_delete", entity_id="other")
    await agent.relate("strong", "USES", "held", weight=0.9, evidence="said since")
    with pytest.raises(Conflict, match="entity 'other' is gone"):
        await undo(agent, done["undo_id"])
    await agent.relate("strong", "KNOWS", "other", weight=0.9)
    await undo(agent, done["undo_id"])
    for said, number in (("faint whisper", 2), ("said since", 2)):
        assert len((await agent.entities(search=said))["entities"]) == number


@pytest.mark.shows("graph_prune", 4, 10)
@pytest.mark.parametrize("layers", [("",), ("", "a")], ids=["one layer", "two layers"])
@pytest.mark.parametrize("bound", ["_IN_RANGE", "_CANDIDATES"])
async def test_whatever_way_a_preview_looks_for_what_fits_an_execution_takes_just_that(
    service: MemoryService,
    tenant: str,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    layers: tuple[str, ...],
    bound: str,
) -> None:
    wide, reader = Agent(service, tenant, ("",), ""), Agent(service, tenant, layers, layers[-1])
    await _faded(wide)
    if reader.write == "a":
        await _faded(reader)
        await reader.batch([_entity("weaker", 0.9), _entity("here alone", 0.7), _entity("here weak", 0.05)])
        await reader.relate("strong", "USES", "here weak", weight=0.03)
    await backdate(database, reader, 31)
    asked: list[str] = []
    real = TenantSession.read

    async def seen(session: TenantSession, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]:
        asked.append(statement.name)
        return await real(session, statement, **parameters)

    monkeypatch.setattr(TenantSession, "read", seen)
    by_candidates = await do(reader, "graph_prune")
    assert (asked.count(FITTING_OF_THESE.name), asked.count(FITTING.name)) == (1, 0)
    monkeypatch.setattr(pruning, bound, 1)
    by_everything = await do(reader, "graph_prune")
    assert (asked.count(FITTING_OF_THESE.name), asked.count(FITTING.name)) == (1, 1)
    assert by_everything == by_candidates
    assert by_candidates["nodes_to_prune"]
    assert by_candidates["edges_to_prune"]
    done = await do(reader, "graph_prune", mode="execute")
    assert [(gone.get("id"), gone.get("from"), gone["type"], gone.get("to")) for gone in done["details"]] == [
        *((node["id"], None, node["type"], None) for node in by_candidates["nodes_to_prune"]),
        *((None, edge["from"], edge["type"], edge["to"]) for edge in by_candidates["edges_to_prune"]),
    ]
    assert (done["kept"], done["remaining"]) == (by_candidates["kept"], 0)


@pytest.mark.shows("graph_prune", 9)
async def test_lists_are_paged_and_an_execution_takes_so_many_and_says_what_remains(agent: Agent) -> None:
    """W-M32: previews were unbounded."""
    await agent.batch([_entity(f"weak {number}", 0.05) for number in range(5)])
    pages, cursor = [], None
    while True:
        page = await do(agent, "graph_prune", limit=2, **({"cursor": cursor} if cursor else {}))
        pages.append([node["name"] for node in page["nodes_to_prune"]])
        cursor = page.get("next_cursor")
        assert page["node_count"] == 5
        if cursor is None:
            break
    assert pages == [["weak 0", "weak 1"], ["weak 2", "weak 3"], ["weak 4"]]
    done = await do(agent, "graph_prune", mode="execute", limit=2)
    assert (done["nodes_pruned"], done["remaining"]) == (2, 3)
    with pytest.raises(InvalidInput):
        await do(agent, "graph_prune", mode="execute", cursor="x")


@pytest.mark.parametrize("place", [2**31 - 1, 2**62, -1, 0.5])
async def test_a_place_that_no_list_has_is_refused(agent: Agent, place: float) -> None:
    await agent.batch([_entity(f"weak {number}", 0.05) for number in range(3)])
    given = (await do(agent, "graph_prune", limit=1))["next_cursor"]
    digest, _ = json.loads(base64.urlsafe_b64decode(given + "=" * (-len(given) % 4)))
    for position in ([place, 0], [0, place]):
        forged = base64.urlsafe_b64encode(json.dumps([digest, position]).encode()).decode()
        with pytest.raises(InvalidInput, match="cursor"):
            await do(agent, "graph_prune", limit=1, cursor=forged)


@pytest.mark.shows("graph_prune", 10)
async def test_the_merged_record_is_judged_and_only_writable_copies_go(service: MemoryService, tenant: str) -> None:
    wide, in_a = Agent(service, tenant, ("",), ""), Agent(service, tenant, ("", "a"), "a")
    hidden = Agent(service, tenant, ("", "b"), "b")
    await wide.batch([_entity("known", 0.9), _entity("weak", 0.05)])
    await in_a.batch(
        [_entity("known", 0.01), _entity("weak", 0.01)],
        [{"from": "known", "to": "weak", "relation": "USES", "weight": 0.01}],
    )
    await hidden.batch([_entity("weak", 0.9)], [])
    seen = await do(in_a, "graph_prune")
    assert [(node["id"], node["confidence"]) for node in seen["nodes_to_prune"]] == [("weak", 0.05)]
    assert [(kept["id"], kept["layer"], kept["why"]) for kept in seen["kept"]] == [
        ("weak", "tenant", "not writable here")
    ]
    done = await do(in_a, "graph_prune", mode="execute")
    assert (done["nodes_pruned"], done["edges_pruned"], done["kept"]) == (1, 1, seen["kept"])
    assert (await in_a.entity("weak"))["layers"] == ["tenant"]
    assert (await in_a.entity("known"))["layers"] == ["tenant", "a"]
    assert (await hidden.entity("weak"))["layers"] == ["tenant", "b"]


@pytest.mark.shows("graph_prune", 11, 12)
async def test_an_execution_is_in_the_audit_trail_and_a_key_prunes_once(agent: Agent, database: Database) -> None:
    await agent.batch([_entity("weak", 0.05)])
    first = await do(agent, "graph_prune", mode="execute", reason="weekly", idempotency_key="k")
    await agent.batch([_entity("weak too", 0.05)])
    assert await do(agent, "graph_prune", mode="execute", reason="weekly", idempotency_key="k") == first
    assert (await do(agent, "graph_prune"))["node_count"] == 1
    told = await entries(database, agent)
    assert [(entry.action, entry.detail["reason"], entry.detail["nodes_pruned"]) for entry in told] == [
        ("memory.prune", "weekly", 1)
    ]
