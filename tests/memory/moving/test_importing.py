"""Memories of other systems taken over: by the rules of ``graph_relate``, all or nothing."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.errors import InvalidInput, QuotaExceeded
from app.memory.moving.importing import import_memory
from app.memory.service import MemoryService
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from tests.memory.conftest import Agent, settings
from tests.memory.doing import backdate, do
from tests.memory.moving.conftest import LAYERS, learn, records_of

New = Callable[[], Awaitable[Tenant]]


def jsonl(path: Path, lines: Sequence[Any]) -> Path:
    path.write_bytes(b"".join((line if isinstance(line, bytes) else orjson.dumps(line)) + b"\n" for line in lines))
    return path


async def data_of(database: Database, tenant: Tenant) -> str:
    found = await Tenants(database.control).by_id(tenant.id)
    assert found is not None
    return found.data


REFERENCE = [
    {
        "type": "entity",
        "name": "Ada_Lovelace",
        "entityType": "person",
        "observations": ["Likes whist", "Speaks French well"],
    },
    {"type": "entity", "name": "Engine", "entityType": "software project", "observations": []},
    {"type": "relation", "from": "Ada_Lovelace", "to": "Engine", "relationType": "works on"},
]


async def test_the_reference_memory_is_found_by_what_was_observed(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    target = await new_tenant()
    path = jsonl(tmp_path / "memory.jsonl", REFERENCE)
    answer = await import_memory(database, settings(), target, path, "mcp-memory", alone=True)
    assert (answer.created_entities, answer.created_relations, answer.skipped) == (4, 3, ())
    agent = Agent(service, await data_of(database, target), ("",), "")
    assert [*await agent.edges("Engine")] == [("ada-lovelace", "WORKS_ON", "engine")]
    assert (await agent.entity("Engine"))["type"] == "SoftwareProject"
    found = await agent.search("Who speaks French?")
    assert found["seeds"][0]["properties"]["content"] == "Speaks French well"
    assert {edge["to"] for edge in found["expansion"]["edges"]} >= {"ada-lovelace"}
    again = await import_memory(database, settings(), await _fresh(database, target), path, "mcp-memory", alone=True)
    assert (again.created_entities, again.created_relations) == (0, 0)


async def test_a_line_that_is_bad_is_named_and_nothing_is_applied_unless_it_may_be_skipped(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    target = await new_tenant()
    lines = [
        *REFERENCE,
        b"{not json",
        {"type": "relation", "from": "Ada_Lovelace", "to": "Nobody Known", "relationType": "KNOWS"},
        {"type": "entity", "name": " "},
        {"type": "relation", "from": "Engine", "to": "engine", "relationType": "IS"},
    ]
    path = jsonl(tmp_path / "memory.jsonl", lines)
    with pytest.raises(InvalidInput, match=r"4 lines .* line 4: not a JSON .* line 5: .* line 6: .* line 7: both ends"):
        await import_memory(database, settings(), target, path, "mcp-memory", alone=True)
    assert await _fresh(database, target) == target
    answer = await import_memory(database, settings(), target, path, "mcp-memory", alone=True, skip_bad=True)
    assert ([bad.line for bad in answer.skipped], answer.created_relations) == ([4, 5, 6, 7], 3)


async def test_what_is_there_stays_and_meets_what_comes(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    target = await new_tenant()
    await learn(service, target.data)
    before = await records_of(database, target.data)
    path = tmp_path / "triplets.csv"
    path.write_text(
        "subject,predicate,object,valid_at,invalid_at,fact\n"
        "ADA,works at,Lovelace Ltd,2025-01-01,,\n"
        "Ada,KNOWS,Grace,2020-01-01,2021-01-01,They met once\n"
        "Ada,KNOWS_ABOUT,日本,,,again\n"
    )
    answer = await import_memory(database, settings(), target, path, "triplets", alone=True)
    assert (answer.created_entities, answer.created_relations) == (2, 2)
    agent = Agent(service, await data_of(database, target), ("",), "")
    edges = await agent.edges("Ada", current_only=False)
    assert edges["ada", "WORKS_AT", "lovelace-ltd"]["invalid_at"] is None
    assert edges["ada", "WORKS_AT", "babbage-ltd"]["invalid_at"] == "2025-01-01T00:00:00Z"
    assert edges["ada", "KNOWS", "grace"]["invalid_at"] == "2021-01-01T00:00:00Z"
    assert edges["ada", "KNOWS", "grace"]["evidence"] == "They met once"
    assert edges["ada", "KNOWS_ABOUT", "日本"]["weight"] == pytest.approx(0.55)
    ada = await agent.entity("Ada")
    assert (ada["name"], ada["properties"]["role"], ada["properties"]["mood"]) == ("Ada", "countess", {"now": "calm"})
    after = await records_of(database, await data_of(database, target))
    work = [each for each in before if each["layer"] == "work"]
    assert [each for each in after if each["layer"] == "work"] == work


async def test_into_a_layer_names_are_those_of_the_layer_and_tenant_wide(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    target = await new_tenant()
    await Agent(service, target.data, ("",), "").relate("Ada Lovelace", "KNOWS", "Engine", to_type="Technology")
    path = jsonl(tmp_path / "memory.jsonl", REFERENCE)
    answer = await import_memory(database, settings(), target, path, "mcp-memory", layer="work", alone=True)
    assert answer.created_entities == 2  # the two observations
    data = await data_of(database, target)
    records = await records_of(database, data)
    assert {each["id"] for each in records if each["layer"] == "tenant" and "id" in each} == {"ada-lovelace", "engine"}
    assert (await Agent(service, data, LAYERS, None).entity("Engine"))["type"] == "Technology"


async def test_the_source_systems_export_keeps_times_and_ends_and_loses_its_tenant(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    """W-M29: the file names a tenant, holds vectors and matches ends by id; here none of that counts."""
    node = {"record": "node", "tenant_id": "other", "confidence": 0.9, "first_seen": "2024-01-01T00:00:00.000Z"}
    path = jsonl(
        tmp_path / "backup-2024.jsonl",
        [
            {"record": "meta", "exported_at": "2024-06-01T00:00:00Z", "tenant_id": "other", "node_count": 2},
            {
                **node,
                "id": "c",
                "name": "C++",
                "type": "Technology",
                "times_mentioned": 7,
                "last_seen": "2024-05-01T00:00:00Z",
                "props": {"embedding": [0.1], "tenant_id": "other", "id": "c", "description": "a language"},
            },
            {**node, "id": "ada", "name": "Ada", "type": "Person", "props": {}},
            {
                "record": "edge",
                "from_id": "ada",
                "to_id": "c",
                "relation": "USES_TECH",
                "weight": 1.5,
                "valid_at": "2023-01-01",
                "invalid_at": "2024-01-01",
                "ingested_at": "2023-02-01T00:00:00Z",
                "tenant_id": "other",
                "source_session": "s9",
                "evidence": "She writes C++",
                "props": {"depth": "deep", "weight": 1.5},
            },
        ],
    )
    target = await new_tenant()
    await import_memory(database, settings(), target, path, "graph-memory", alone=True)
    agent = Agent(service, await data_of(database, target), ("",), "")
    language = await agent.entity("C++")
    assert language["id"] != "c"
    assert (language["times_mentioned"], language["first_seen"]) == (7, "2024-01-01T00:00:00Z")
    assert "other" not in str(language)
    edges = await agent.edges("Ada", current_only=False)
    edge = edges["ada", "USES_TECH", language["id"]]
    assert (edge["weight"], edge["invalid_at"], edge["ingested_at"]) == (
        1.0,
        "2024-01-01T00:00:00Z",
        "2023-02-01T00:00:00Z",
    )
    assert (edge["source_session"], edge["properties"]["depth"]) == ("s9", "deep")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("subject,object\na,b\n", "line 1: the first line names no column predicate"),
        ("subject,predicate,object\nAda,KNOWS,\n", "line 2: object is missing"),
        ("subject,predicate,object,valid_at\nAda,KNOWS,Bob,soon\n", "line 2: a moment is"),
        ("subject,predicate,object\nAda,!!,Bob\n", "line 2: the relation has no letters"),
    ],
)
async def test_a_bad_table_is_named_by_line(
    database: Database, new_tenant: New, tmp_path: Path, text: str, words: str
) -> None:
    path = tmp_path / "triplets.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words):
        await import_memory(database, settings(), await new_tenant(), path, "triplets", alone=True)


async def test_an_import_beyond_the_quota_applies_nothing(database: Database, new_tenant: New, tmp_path: Path) -> None:
    target = await new_tenant()
    path = jsonl(tmp_path / "memory.jsonl", REFERENCE)
    with pytest.raises(QuotaExceeded, match="2 relations"):
        await import_memory(database, settings(quota_relations=2), target, path, "mcp-memory", alone=True)
    assert await _fresh(database, target) == target


@pytest.mark.parametrize("many", [600, pytest.param(2000, marks=pytest.mark.soak)])
async def test_many_relations_come_in_quickly(
    database: Database, new_tenant: New, tmp_path: Path, show: Callable[[str], None], many: int
) -> None:
    """More than a batch; the bench imports 50,000 and holds the target of 50,000 a minute."""
    told = random.Random(5)
    rows = [
        f"thing {told.randrange(700)},{told.choice(['USES', 'KNOWS'])},item {told.randrange(700)}" for _ in range(many)
    ]
    path = tmp_path / "many.csv"
    path.write_text("subject,predicate,object\n" + "\n".join(rows) + "\n")
    began = time.perf_counter()
    answer = await import_memory(database, settings(), await new_tenant(), path, "triplets", alone=True)
    seconds = time.perf_counter() - began
    show(f"import: {answer.relations} relations in {seconds:.1f} s, {60 * answer.relations / seconds:,.0f} a minute")
    assert answer.created_relations == len(set(rows))


async def _fresh(database: Database, tenant: Tenant) -> Tenant:
    found = await Tenants(database.control).by_id(tenant.id)
    assert found is not None
    return found


async def test_what_the_source_system_let_fade_fades_from_its_export_on(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    """W-M07: the file holds what was left at its export; counted from when it was last seen it would fade twice."""
    ago = {days: (datetime.now(UTC) - timedelta(days=days)).isoformat() for days in (10, 100)}
    node = {"record": "node", "type": "Person", "confidence": 0.5, "last_seen": ago[100], "props": {}}
    edge = {"record": "edge", "from_id": "a", "relation": "KNOWS", "weight": 0.4, "last_confirmed": ago[100]}
    lines = [
        {"record": "meta", "exported_at": ago[10], "tenant_id": "other"},
        *({**node, "id": name.lower(), "name": name} for name in ("A", "B", "C", "D")),
        {**edge, "to_id": "b"},
        {**edge, "to_id": "c"},
    ]
    target = await new_tenant()
    there = Agent(service, target.data, ("",), "")
    for name, weight in (("C", 0.8), ("D", 0.1)):
        await there.relate("Zoe", "KNOWS", name, to_type="Person", weight=weight)
    await backdate(database, there, 50)
    path = jsonl(tmp_path / "export.jsonl", lines)
    await import_memory(database, settings(), target, path, "graph-memory", alone=True)
    agent = Agent(service, await data_of(database, target), ("",), "")
    await do(agent, "graph_decay")
    held = {one["id"]: one["confidence"] for one in (await agent.entities())["entities"]}
    assert held["a"] == held["b"] == pytest.approx(0.5 * 0.998**10)
    assert held["c"] == pytest.approx(0.8 * 0.998**50)
    assert held["d"] == pytest.approx(0.5 * 0.998**10)
    assert (await agent.edges("A"))["a", "KNOWS", "b"]["weight"] == pytest.approx(0.4 * 0.997**10)
    await backdate(database, agent, 20)
    await do(agent, "graph_decay")
    assert (await agent.entity("A"))["confidence"] == pytest.approx(0.5 * 0.998**30)
