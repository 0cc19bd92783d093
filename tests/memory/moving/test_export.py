"""``graph_export``: the file, its name, whose it is."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
import tracemalloc
from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest
from pydantic import ValidationError

from app.context import TenantRules
from app.errors import Overloaded, QuotaExceeded
from app.memory.moving.exchange import remove_old_exports
from app.memory.moving.export import _kept, export
from app.memory.moving.exports import Exports
from app.memory.moving.schemas import ExportInput
from app.memory.service import MemoryService
from app.settings import LimitSettings
from app.store import idempotency
from app.store.control.tenants import Tenant, Tenants
from app.store.database import Database
from app.store.moving import dump as dumping
from app.store.moving.dump import Dump
from app.store.moving.format import verified
from tests.memory.conftest import HOME, Agent
from tests.memory.moving.conftest import LAYERS, learn, lines_of, records_of


def folder_of(tenant: str) -> Path:
    return Path(HOME.name) / "tenants" / tenant / "exports"


def read(tenant: str, name: str) -> list[dict[str, Any]]:
    (path,) = folder_of(tenant).glob(f"*/{name}")
    return [orjson.loads(line) for line in path.read_bytes().splitlines()]


async def exported(agent: Agent, *, subject: str = "user", **arguments: Any) -> dict[str, Any]:
    call = agent.call("graph_export", "d")
    call = replace(call, scope=replace(call.scope, subject=subject))
    return dict(await export(agent.service, call, ExportInput.model_validate(arguments)))


@pytest.mark.shows("graph_export", 1, 2, 3, 4, 7)
async def test_the_file_holds_what_the_contract_says_and_names_no_tenant(service: MemoryService, tenant: str) -> None:
    """W-M29: no vectors and no tenant in the file."""
    await learn(service, tenant)
    answer = await exported(Agent(service, tenant, LAYERS, "work"))
    records = read(tenant, answer["backup_file"])
    meta, *middle, end = records
    assert (meta["record"], meta["node_count"], meta["edge_count"]) == ("meta", 6, 5)
    assert (answer["node_count"], answer["edge_count"]) == (6, 5)
    assert datetime.fromisoformat(meta["exported_at"]).tzinfo is not None
    assert (end["record"], end["nodes"], end["edges"]) == ("end", 7, 5)  # Ada lies in two layers
    nodes = {(each["layer"], each["id"]): each for each in middle if each["record"] == "node"}
    ada = nodes["tenant", "ada"]
    contract = "id type name subtype confidence times_mentioned first_seen last_seen source_file"
    assert set(contract.split()) <= ada.keys()
    assert (ada["props"], ada["extra"]) == ({"role": "countess"}, {"mood": {"now": "calm"}})
    edges = {(each["from_id"], each["relation"], each["to_id"]): each for each in middle if each["record"] == "edge"}
    told = edges["ada", "WORKS_AT", "babbage-ltd"]
    contract = (
        "weight last_confirmed valid_at invalid_at ingested_at source_session source_transcript source_type evidence"
    )
    assert set(contract.split()) <= told.keys()
    assert (told["evidence"], told["source_session"], len(told["past"])) == ("said", "s1", 1)
    text = orjson.dumps(records).decode()
    assert tenant not in text
    assert '"embedding":[' not in text


@pytest.mark.shows("graph_export", 7, 10)
async def test_the_answer_describes_a_whole_file_that_only_the_gateway_may_read(
    service: MemoryService, tenant: str
) -> None:
    await learn(service, tenant)
    answer = await exported(Agent(service, tenant, LAYERS, "work"), label="a")
    (path,) = folder_of(tenant).glob("*/*.jsonl")
    content = path.read_bytes()
    assert path.name == answer["backup_file"]
    assert "/" not in answer["backup_file"]
    assert (answer["size_bytes"], answer["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert verified(path).counts.nodes == 7
    for made in (path, path.parent, path.parent.parent, path.parents[2]):
        assert made.stat().st_mode & 0o077 == 0


@pytest.mark.shows("graph_export", 5, 6)
async def test_names_say_when_and_what_for_and_two_of_a_second_do_not_meet(tmp_path: Path) -> None:
    """W-M29: same-second names overwrite nothing."""
    exports, now = Exports(tmp_path, "user", ("",)), datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    names = []
    for _ in range(3):
        unfinished = exports.begin("before ../merge!", now)
        unfinished.write(b'{"layers":["tenant"]}\n')
        unfinished.finish()
        names.append(unfinished.name)
    assert names[0] == "2026-01-02T03-04-05-before----merge-.jsonl"
    assert names[1:] == [names[0].replace(".jsonl", ".2.jsonl"), names[0].replace(".jsonl", ".3.jsonl")]
    assert all(exports.find(name) for name in names)
    plain = exports.begin(None, now)
    plain.discard()
    assert plain.name == "2026-01-02T03-04-05.jsonl"


@pytest.mark.shows("graph_export", 8)
async def test_only_ones_own_older_exports_of_readable_layers_are_counted_and_pruned(
    service: MemoryService, tenant: str
) -> None:
    """Partition rule 18. W-M29: one tenant's export deletes no other's."""
    await learn(service, tenant)
    whole, wide = Agent(service, tenant, LAYERS, "work"), Agent(service, tenant, ("",), "")
    await exported(whole)
    await exported(whole, subject="somebody else")
    kept = [await exported(wide, keep=2, label=str(number)) for number in range(3)]
    assert [(each["pruned"], each["retained"]) for each in kept] == [(0, 1), (0, 2), (1, 2)]
    assert len([*folder_of(tenant).glob("*/*.jsonl")]) == 4
    names = {path.name for path in folder_of(tenant).glob("*/*.jsonl")}
    assert kept[0]["backup_file"] not in names
    assert (await exported(whole, keep=1))["retained"] == 1


def test_a_file_is_found_only_by_who_made_it_and_may_read_all_of_it(tmp_path: Path) -> None:
    """Partition rule 18."""
    unfinished = Exports(tmp_path, "user", ("", "work")).begin(None)
    unfinished.write(b'{"layers":["tenant","work"]}\n')
    unfinished.finish()
    assert Exports(tmp_path, "user", ("", "work")).find(unfinished.name) is not None
    assert Exports(tmp_path, "user", ("",)).find(unfinished.name) is None
    assert Exports(tmp_path, "other", ("", "work")).find(unfinished.name) is None
    for name in ("../" + unfinished.name, "/etc/passwd", f".{unfinished.name}.part", ""):
        assert Exports(tmp_path, "user", ("", "work")).find(name) is None


async def test_a_source_of_many_relations_is_read_whole_in_pieces(
    database: Database, service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(service, tenant, ("",), "")
    verbs = ("KNOWS", "USES", "WORKS_WITH")
    relations = [
        {"from": "Hub", "relation": verb, "to": f"N{number}"} for number in range(5) for verb in verbs[: 1 + number % 3]
    ]
    others = [{"from": name, "relation": "KNOWS", "to": "Hub"} for name in ("Ada", "N1", "Zoe")]
    names = ("Hub", "Ada", "Zoe", *(f"N{number}" for number in range(5)))
    await agent.batch([{"name": name, "type": "Person"} for name in names], [*relations, *others])
    whole = await records_of(database, tenant)
    assert sum(each["record"] == "edge" for each in whole) == 12
    for page, keys in ((1, 1), (2, 3), (3, 2), (4, 50)):
        monkeypatch.setattr(dumping, "PAGE", page)
        monkeypatch.setattr(dumping, "_KEYS", keys)
        assert await records_of(database, tenant) == whole


def test_a_file_of_many_layers_is_found_too(tmp_path: Path) -> None:
    layers = [f"{number:04}{'x' * 60}" for number in range(1100)]
    unfinished = Exports(tmp_path, "user", layers).begin(None)
    unfinished.write(orjson.dumps({"layers": layers}) + b"\n")
    unfinished.finish()
    assert Exports(tmp_path, "user", layers).find(unfinished.name) is not None
    assert Exports(tmp_path, "user", layers[1:]).find(unfinished.name) is None


@pytest.mark.shows("graph_export", 9)
async def test_layers_that_the_caller_may_not_read_are_not_in_the_file(service: MemoryService, tenant: str) -> None:
    await learn(service, tenant)
    answer = await exported(Agent(service, tenant, ("",), ""))
    records = read(tenant, answer["backup_file"])
    assert (records[0]["layers"], answer["layers"]) == (["tenant"], ["tenant"])
    assert {each["layer"] for each in records[1:-1]} == {"tenant"}
    assert "engine" not in orjson.dumps(records).decode()


@pytest.mark.shows("graph_export", 8)
@pytest.mark.parametrize("keep", [0, 31])
def test_keep_is_between_1_and_30(keep: int) -> None:
    with pytest.raises(ValidationError):
        ExportInput(keep=keep)


@pytest.mark.shows("graph_export", 8, 15)
@pytest.mark.parametrize(
    ("rule", "asked", "kept"), [(None, None, 14), (None, 30, 30), (2, None, 2), (2, 30, 2), (20, None, 20), (20, 1, 1)]
)
def test_a_tenants_own_rule_says_how_many_stay_and_no_call_keeps_more(
    rule: int | None, asked: int | None, kept: int
) -> None:
    assert _kept(asked, TenantRules(exports_kept=rule), LimitSettings()) == kept


@pytest.mark.shows("graph_export", 15)
async def test_exports_that_are_older_than_a_tenants_rule_go_whoever_made_them(
    database: Database, service: MemoryService, new_tenant: Callable[[], Awaitable[Tenant]]
) -> None:
    tenants, tenant, other = Tenants(database.control), await new_tenant(), await new_tenant()
    await tenants.set_rules(tenant.id, TenantRules(exports_kept=2, export_days=3))
    for each in (tenant, other):
        agent = Agent(service, each.data, ("",), "", each.rules)
        await agent.relate("Ada", "KNOWS", "Engine")
        made = [await exported(agent, subject=subject, label=subject) for subject in ("user", "other")]
        (old,) = folder_of(each.data).glob(f"*/{made[0]['backup_file']}")
        four_days_ago = time.time() - 4 * 24 * 3600
        os.utime(old, (four_days_ago, four_days_ago))
    assert await remove_old_exports(database, service.settings) == 1
    assert len([*folder_of(tenant.data).glob("*/*.jsonl")]) == 1
    assert len([*folder_of(other.data).glob("*/*.jsonl")]) == 2


@pytest.mark.shows("graph_export", 10)
async def test_an_export_that_fails_leaves_no_file(
    service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    await learn(service, tenant)

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("app.memory.moving.exports.Unfinished.write", full)
        with pytest.raises(Overloaded, match="Nothing was kept"):
            await exported(Agent(service, tenant, LAYERS, "work"))
    assert [path for path in folder_of(tenant).rglob("*") if path.is_file()] == []


@pytest.mark.shows("graph_export", 8, 10)
@pytest.mark.parametrize("key", [None, "k"])
async def test_an_older_export_that_cannot_be_removed_is_left_and_the_new_one_is_there(
    service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch, key: str | None
) -> None:
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    await exported(agent)

    def stuck(self: Path, *, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    with monkeypatch.context() as patched:
        patched.setattr(Path, "unlink", stuck)
        answer = await exported(agent, keep=1, idempotency_key=key)
    assert (answer["pruned"], answer["retained"]) == (0, 2)
    assert len([*folder_of(tenant).glob("*/*.jsonl")]) == 2
    assert (await exported(agent, keep=1))["pruned"] == 2


@pytest.mark.shows("graph_export", 10, 13)
async def test_an_export_whose_answer_is_not_recorded_leaves_no_file_and_removes_none(
    service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    first = await exported(agent)

    async def refused(*_: object) -> None:
        raise Overloaded("no room")

    with monkeypatch.context() as patched:
        patched.setattr("app.store.session.record", refused)
        with pytest.raises(Overloaded, match="no room"):
            await exported(agent, keep=1, idempotency_key="k")
    assert [path.name for path in folder_of(tenant).rglob("*") if path.is_file()] == [first["backup_file"]]
    assert (await exported(agent, keep=1, idempotency_key="k"))["pruned"] == 1


@pytest.mark.shows("graph_export", 13)
async def test_a_transaction_that_is_repeated_writes_one_file(
    service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    recorded, attempts = idempotency.record, []

    async def cut_off(*given: Any) -> None:
        attempts.append(given)
        if len(attempts) == 1:
            raise ConnectionResetError
        await recorded(*given)

    monkeypatch.setattr("app.store.session.record", cut_off)
    answer = await exported(agent, idempotency_key="k")
    assert len(attempts) == 2
    assert [path.name for path in folder_of(tenant).rglob("*") if path.is_file()] == [answer["backup_file"]]


@pytest.mark.shows("graph_export", 8)
async def test_exports_count_among_the_files_of_the_tenant(
    service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    size = (await exported(agent))["size_bytes"]
    _allow(service, monkeypatch, quota_file_bytes=2 * size + size // 2)
    assert (await exported(agent, subject="somebody else"))["retained"] == 1
    with pytest.raises(QuotaExceeded, match="GRAPHKEEP_QUOTA_FILE_BYTES"):
        await exported(agent)
    assert len([path for path in folder_of(tenant).rglob("*") if path.is_file()]) == 2
    assert (await exported(agent, keep=1))["pruned"] == 1
    _allow(service, monkeypatch, quota_files=2)
    with pytest.raises(QuotaExceeded, match="GRAPHKEEP_QUOTA_FILES"):
        await exported(agent)
    assert (await exported(agent, keep=1))["retained"] == 1


def _allow(service: MemoryService, monkeypatch: pytest.MonkeyPatch, **quotas: int) -> None:
    ingest = service.settings.ingest.model_copy(update=quotas)
    monkeypatch.setattr(service, "settings", replace(service.settings, ingest=ingest))


@pytest.mark.shows("graph_export", 13)
async def test_the_same_key_gets_the_first_answer_and_makes_one_file(service: MemoryService, tenant: str) -> None:
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    first = await exported(agent, idempotency_key="k")
    assert await exported(agent, idempotency_key="k") == first
    at_once = await asyncio.gather(*(exported(agent, idempotency_key="at once") for _ in range(3)))
    assert len({each["backup_file"] for each in at_once}) == 1
    assert len([*folder_of(tenant).glob("*/*.jsonl")]) == 2


@pytest.mark.shows("graph_export", 11)
async def test_what_is_written_meanwhile_leaves_no_relation_without_its_ends(
    database: Database, service: MemoryService, tenant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Agent(service, tenant, ("",), "")
    await agent.relate("Ada", "KNOWS", "Engine")
    reads = Dump._nodes

    async def reading(self: Dump, door: Any, layer: str) -> Any:
        async for rows in reads(self, door, layer):
            yield rows
        await agent.relate("Ada", "KNOWS", "Latecomer")

    monkeypatch.setattr(Dump, "_nodes", reading)
    records = [orjson.loads(line) for line in await lines_of(database, tenant, ("",))]
    told = [each["to_id"] for each in records if each["record"] == "edge"]
    places = {each.get("id"): place for place, each in enumerate(records)}
    assert sorted(told) == ["engine", "latecomer"]
    assert all(places[end] < place for place, each in enumerate(records) for end in [each.get("to_id")] if end)


@pytest.mark.shows("graph_export", 11)
async def test_memory_stays_the_same_however_much_there_is(
    database: Database, plain_agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W-M29: the whole graph is never in memory."""
    monkeypatch.setattr("app.store.moving.dump.PAGE", 10)
    peaks = []
    for numbers in (range(50), range(50, 150)):
        content = {"content": "x" * 2000}
        await plain_agent.batch(
            [{"name": f"thing {number}", "type": "Concept", "properties": content} for number in numbers]
        )
        await _peak(database, plain_agent.tenant)  # what is loaded once is loaded
        peaks.append(await _peak(database, plain_agent.tenant))
    assert peaks[1] < 1.5 * peaks[0]


async def _peak(database: Database, tenant: str) -> int:
    from app.context import Deadline, Scope

    def opened(scope: Scope) -> Any:
        return database.session(scope, deadline=Deadline.after(15), request_id="test")

    tracemalloc.start()
    async for _ in Dump(opened, tenant, ("",)).lines({"nodes": 0, "edges": 0}):
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak
