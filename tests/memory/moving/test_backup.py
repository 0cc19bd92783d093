"""A backup of what has faded, and one that no restore would take."""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, tzinfo
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.errors import InternalError, InvalidInput, Overloaded
from app.memory.moments import moment
from app.memory.moving import backup as backing_up
from app.memory.moving.backup import back_up
from app.memory.moving.importing import import_memory
from app.memory.moving.records import Records
from app.memory.moving.restore import restore
from app.memory.service import MemoryService
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from app.store.moving import dump as dumping
from tests.memory.conftest import Agent, settings
from tests.memory.doing import backdate, do
from tests.memory.moving.conftest import LAYERS, learn, records_of

New = Callable[[], Awaitable[Tenant]]


async def now(service: MemoryService, tenant: Tenant) -> Agent:
    found = await Tenants(service.database.control).by_id(tenant.id)
    assert found is not None
    return Agent(service, found.data, LAYERS, "")


async def faded(service: MemoryService, database: Database, tenant: Tenant) -> Agent:
    """Somebody whose memory was decayed twice, forty days apart."""
    await learn(service, tenant.data)
    agent = Agent(service, tenant.data, LAYERS, "")
    for _ in range(2):
        await backdate(database, agent, 40)
        assert (await do(agent, "graph_decay"))["nodes_decayed"] > 0
    return agent


@pytest.mark.shows("graph_export", 12)
@pytest.mark.shows("graph_decay", 1)
async def test_what_has_faded_is_backed_up_and_restored_and_does_not_fade_again(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    source, target = await new_tenant(), await new_tenant()
    agent = await faded(service, database, source)
    made = await back_up(database, source, tmp_path)
    assert b"decay_state" in made.path.read_bytes()
    await restore(database, settings(), target, made.path, alone=True)
    restored = await now(service, target)
    assert await records_of(database, restored.tenant) == await records_of(database, source.data)
    again = await do(restored, "graph_decay")
    assert (again["nodes_decayed"], again["edges_decayed"]) == (0, 0)
    for each in (agent, restored):
        await backdate(database, each, 30)
        await do(each, "graph_decay")
    assert _weights(await records_of(database, restored.tenant)) == _weights(await records_of(database, source.data))


async def test_what_has_faded_stays_as_it_is_beside_what_is_imported(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    target = await new_tenant()
    await faded(service, database, target)
    before = await records_of(database, target.data)
    path = tmp_path / "triplets.csv"
    path.write_text("subject,predicate,object\nAda,KNOWS_ABOUT,日本\nGrace,KNOWS,Linus\n")
    await import_memory(database, settings(), target, path, "triplets", alone=True)
    moved = await now(service, target)
    after = await records_of(database, moved.tenant)
    untouched = [each for each in before if not {each.get("id"), each.get("from_id")} & {"ada"}]
    assert [each for each in untouched if "decay_state" in each]
    assert all(each in after for each in untouched if each.get("name") != "日本")
    assert (await do(moved, "graph_decay"))["nodes_decayed"] == 0


async def test_a_record_that_no_restore_would_take_is_found_when_it_is_backed_up(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path
) -> None:
    source = await new_tenant()
    await Agent(service, source.data, ("",), "").relate("Ada", "KNOWS", "Engine")
    async with database.driver.session(database=database.name) as session:
        await (await session.run("MATCH (n:Entity {tenant: $of}) SET n.`a b` = 1", of=source.data)).consume()
    with pytest.raises(InternalError, match="line 2: the property 'a b' may not be set"):
        await back_up(database, source, tmp_path)
    assert os.listdir(tmp_path) == []


async def test_tenants_with_names_that_look_alike_in_a_folder_have_files_of_their_own(
    database: Database, new_tenant: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = (
        replace(await new_tenant(), name="family archive"),
        replace(await new_tenant(), name="family-archive"),
    )
    monkeypatch.setattr(backing_up, "datetime", _Standing)
    made = [await back_up(database, tenant, tmp_path) for tenant in (first, second)]
    assert sorted(each.path.name for each in made) == sorted(os.listdir(tmp_path))
    assert len({each.path for each in made}) == 2
    before = made[0].path.read_bytes()
    with pytest.raises(FileExistsError):
        await back_up(database, first, tmp_path)
    assert made[0].path.read_bytes() == before
    assert len(os.listdir(tmp_path)) == 2


class _Standing(datetime):
    @classmethod
    def now(cls, tz: tzinfo | None = None) -> datetime:
        return datetime(2026, 11, 30, 3, tzinfo=tz)


@pytest.mark.parametrize("given", [[1.0, 2.0, 3.0], [1, 2, 3, "4"], "x", [1, 2, 3, True]])
def test_what_a_record_faded_from_is_four_numbers(given: object) -> None:
    node = {"record": "node", "id": "ada", "name": "Ada", "type": "Person", "layer": "tenant", "decay_state": given}
    with pytest.raises(InvalidInput, match="4 numbers"):
        Records().rows(1, node)
    (row,) = Records().rows(1, orjson.loads(orjson.dumps({**node, "decay_state": [1, 2.5, 3, 4]})))
    assert row.values["fields"]["decay_state"] == [1.0, 2.5, 3.0, 4.0]


def test_every_record_has_the_moments_that_reading_it_needs() -> None:
    records = Records()
    node = {"record": "node", "id": "ada", "name": "Ada", "type": "Person", "layer": "tenant"}
    edge = {"record": "edge", "layer": "tenant", "from_id": "ada", "to_id": "eve", "relation": "KNOWS", "weight": 0.5}
    for record, first, last in ((node, "first_seen", "last_seen"), (edge, "ingested_at", "last_confirmed")):
        (row,) = records.rows(1, record)
        assert moment(row.values[first]) == moment(row.values[last])
        (row,) = records.rows(1, {**record, last: "2026-01-02T00:00:00Z"})
        assert (row.values[first], row.values[last]) == ("2026-01-02T00:00:00Z", "2026-01-02T00:00:00Z")


@pytest.mark.parametrize(
    "more",
    [
        {"props": {"content": "x" * 131_072}},
        {"extra": {"odd": ["x" * 131_072]}},
        {"evidence_text": "x" * 32_769},
        {"aliases": ["x" * 100] * 2000},
    ],
)
def test_a_record_that_no_tool_would_make_so_large_is_refused(more: dict[str, object]) -> None:
    node = {"record": "node", "id": "ada", "name": "Ada", "type": "Person", "layer": "tenant"}
    with pytest.raises(InvalidInput, match=r"line 7: .* KiB"):
        Records().rows(7, {**node, **more})


_TIME = {
    "valid_at": "2020-01-01",
    "invalid_at": None,
    "ingested_at": "2020-01-01T01:00:00+01:00",
    "ended_at": None,
    "weight": 0.5,
}


@pytest.mark.parametrize(
    "past",
    [
        [1, "x"],
        {"valid_at": None},
        [{key: value for key, value in _TIME.items() if key != "ended_at"}],
        [{**_TIME, "more": 1}],
        [{**_TIME, "valid_at": "soon"}],
        [{**_TIME, "valid_at": 5}],
        [{**_TIME, "weight": "0.5"}],
        [{**_TIME, "weight": None}],
        [_TIME] * 51,
    ],
)
def test_other_times_of_a_relation_have_the_form_that_looking_back_reads(past: object) -> None:
    edge = {"record": "edge", "layer": "tenant", "from_id": "ada", "to_id": "eve", "relation": "KNOWS", "weight": 0.5}
    with pytest.raises(InvalidInput, match="line 1"):
        Records().rows(1, {**edge, "past": past})
    turned = dict(reversed(_TIME.items()))
    (row,) = Records().rows(1, {**edge, "past": [turned] * 50})
    (first, *_) = orjson.loads(row.values["fields"]["past"])
    assert [*first.items()] == [
        ("valid_at", "2020-01-01T00:00:00Z"),
        ("invalid_at", None),
        ("ingested_at", "2020-01-01T00:00:00Z"),
        ("ended_at", None),
        ("weight", 0.5),
    ]


def _weights(records: list[dict[str, object]]) -> list[object]:
    return [each.get("confidence", each.get("weight")) for each in records]


async def test_a_relation_that_moves_behind_the_page_that_is_read_is_in_the_file(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A merge gives a relation to a source whose page was read already: what held before and after is not left out."""
    tenant = await new_tenant()
    agent = Agent(service, tenant.data, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    await agent.relate("Zoe", "KNOWS", "Organ")
    monkeypatch.setattr(dumping, "PAGE", 1)
    reads, merged = dumping._edges, []

    async def merging(session: Any, layer: str) -> Any:
        async for rows in reads(session, layer):
            yield rows
            if not merged:
                merged.append(await do(agent, "graph_merge", source_id="zoe", target_id="ada", reason="one person"))

    monkeypatch.setattr(dumping, "_edges", merging)
    made = await back_up(database, tenant, tmp_path)
    told = [orjson.loads(line) for line in made.path.read_bytes().splitlines()]
    edges = sorted((each["from_id"], each["to_id"]) for each in told if each["record"] == "edge")
    assert edges == [("ada", "engine"), ("ada", "organ")]


async def test_a_backup_during_which_relations_never_rest_is_refused_and_leaves_no_file(
    database: Database, service: MemoryService, new_tenant: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await new_tenant()
    agent = Agent(service, tenant.data, ("",), "")
    for name in ("Ada", "Zoe", "Zora", "Zita"):
        await agent.relate(name, "KNOWS", "Engine")
    others = ["zoe", "zora", "zita"]
    reads = dumping._edges

    async def merging(session: Any, layer: str) -> Any:
        async for rows in reads(session, layer):
            yield rows
        if layer == "":
            await do(agent, "graph_merge", source_id=others.pop(), target_id="ada", reason="one person")

    monkeypatch.setattr(dumping, "_edges", merging)
    with pytest.raises(Overloaded, match="merged"):
        await back_up(database, tenant, tmp_path)
    assert (others, os.listdir(tmp_path)) == ([], [])
