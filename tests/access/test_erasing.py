"""A deleted tenant is erased everywhere, and the certificate can be checked by anyone who has the gateway's keys."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from app.access.accounts import Accounts
from app.access.erasing import Erasing
from app.context import Deadline, Role, Scope
from app.contract import Json
from app.errors import Conflict
from app.oauth.secrets import digest
from app.oauth.vault import Vault
from app.settings import RunSettings, Settings
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.control.clients import ClientRecord, ClientStore
from app.store.control.moves import Moves
from app.store.control.queue import Item, accept_in
from app.store.control.revocations import Revocation, Revocations
from app.store.control.tenants import Tenant, Tenants, TenantState
from app.store.database import Database, Writing
from app.store.moving import erase as room
from app.store.moving.erase import counted
from app.store.moving.load import Load, Row
from app.store.statement import statement
from tests.identity import fresh_email, fresh_name, vault_of

STRANGE = statement(
    "test.erasing_strange",
    "CREATE (n:QueueLikeThing {tenant: $tenant, layer: $layer, id: 'x'}) RETURN n.id AS id",
    writes=True,
)

REMNANT = statement(
    "test.erasing_remnant", "CREATE (n:Remnant {note: $note}) RETURN n.note AS note", writes=True, control=True
)
NO_REMNANT = statement("test.erasing_no_remnant", "MATCH (n:Remnant) DELETE n", writes=True, control=True)


@pytest.fixture
def vault(database: Database, tmp_path: Path) -> Vault:
    return vault_of(database, tmp_path)


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(run=RunSettings(home=tmp_path))


@pytest.fixture
def erasing(database: Database, settings: Settings, vault: Vault) -> Erasing:
    return Erasing(database, settings, vault, alone=True)


async def a_full_tenant(database: Database, settings: Settings, vault: Vault) -> Tenant:
    """A tenant with people, tokens, a memory in two layers, a queue, other records, a half-finished move and files."""
    accounts = Accounts(database.control, vault, admin_tenant=fresh_name("admin"))
    await accounts.bootstrap(fresh_email())
    tenant = await accounts.create_tenant(fresh_name("erased"))
    email = fresh_email()
    await accounts.add_user(email, tenant, Role.OWNER)
    await accounts.create_token(email, tenant)
    await fill(database, tenant.data)
    move = await Moves(database.control).begin(tenant.id)
    await fill(database, move.id)
    await queue(database, tenant.data)
    for name in ("exports/a.jsonl", "ingest/items/in-1/original"):
        path = settings.run.tenant_folder(tenant.data) / name
        path.parent.mkdir(parents=True)
        path.write_text("{}\n")
    return tenant


async def queue(database: Database, data: str) -> None:
    times = {"created_at": 1.0, "updated_at": 1.0, "due": 0.0}
    sent = {"name": "a.md", "sha256": "s", "size": 3, "media_type": "text/markdown", "kind": "document", "meta": "{}"}
    made = Item(id=f"in-{data}", tenant=data, layer="", state="pending", subject="us", **sent, **times)
    await database.control.write(lambda writing: accept_in(writing, made))


async def fill(database: Database, data: str, name: str = "Ada") -> None:
    def opened(scope: Scope):  # type: ignore[no-untyped-def]
        return database.session(scope, deadline=Deadline.after(15), request_id="test")

    load = Load(opened, data)
    for layer in ("", "work"):
        fields = {"name": name, "type": "Person", "embedding": [0.5, 0.5]}
        seen = {"first_seen": "2026-01-01T00:00:00Z", "last_seen": None}
        people = [{"id": f"person-{number}", "label": "Person", "fields": fields, **seen} for number in range(7)]
        await load.write([Row("node", layer, 1, person) for person in people])
        times = dict.fromkeys(("ingested_at", "last_confirmed", "valid_at", "invalid_at", "ended_at"))
        ends = [{"source": "person-0", "relation": "KNOWS", "target": f"person-{number}"} for number in range(1, 7)]
        await load.write([Row("edge", layer, 1, {**each, "fields": {"weight": 0.5}, **times}) for each in ends])
        await load.write([Row("alias", layer, 1, {"id": "a", "target": "person-0", "name": "A"})])

    async def strange(writing: Writing) -> Json:
        return (await writing.run(STRANGE))[0]

    await opened(Scope(data, ("",), ("",), "", "test")).write(strange)


async def deleted(database: Database, tenant: Tenant) -> Tenant:
    gone = await Tenants(database.control).set_state(tenant.id, TenantState.DELETED)
    assert gone is not None
    return gone


async def test_nothing_of_a_deleted_tenant_is_left_and_a_signed_certificate_counts_what_was(
    database: Database, settings: Settings, vault: Vault, erasing: Erasing
) -> None:
    tenant = await a_full_tenant(database, settings, vault)
    other = fresh_name("other")
    await fill(database, other)
    await queue(database, other)
    before = await counted(database.control, other)
    made = await erasing.erase(await deleted(database, tenant))
    said = made["certificate"]
    assert said["erased"]["Entity"] == 28
    assert said["erased"]["vectors"] == 28
    assert said["erased"]["relations"] == 24
    assert said["erased"]["Alias"] == 4
    assert said["erased"]["QueueLikeThing"] == 2
    assert {"_Membership", "_PersonalToken", "_Audit", "_IngestItem"} <= said["erased"].keys()
    assert (said["files"], said["left"], said["tenant"]) == (2, {}, tenant.name)
    assert said["log_lines"] == {"field": "tenant", "values": said["ids"]}
    assert {tenant.id, tenant.data} <= set(said["ids"])
    assert any("transaction logs" in words and "`graphkeep compact`" in words for words in said["remains"])
    header, claims = (await vault.ring()).verify(made["signed"])
    assert (header["typ"], claims) == ("graphkeep-erasure+jwt", said)
    assert _kept(Path(made["file"])) == (made["signed"], 0)
    assert not settings.run.tenant_folder(tenant.data).exists()
    assert await Tenants(database.control).by_id(tenant.id) is None
    assert await counted(database.control, other) == before
    await room.erase_data(database.control, other)


def _kept(path: Path) -> tuple[str, int]:
    """The signature in a file, and what others than its owner may do with it."""
    return json.loads(path.read_text())["signed"], path.stat().st_mode & 0o077


async def test_an_erasure_that_was_cut_short_goes_on_and_counts_the_whole(
    database: Database, settings: Settings, vault: Vault, erasing: Erasing, monkeypatch: pytest.MonkeyPatch
) -> None:
    tenant = await a_full_tenant(database, settings, vault)
    gone = await deleted(database, tenant)

    class Cut(Exception):
        pass

    async def cut(*_: object, **__: object) -> None:
        raise Cut

    with monkeypatch.context() as patched:
        patched.setattr("app.access.erasing.erase_tenant", cut)
        with pytest.raises(Cut):
            await erasing.erase(gone)
    assert await counted(database.control, tenant.data) == {}
    assert [each.id for each in await erasing.pending(tenant.name.upper())] == [tenant.id]
    made = await erasing.erase(gone)
    assert made["certificate"]["erased"]["Entity"] == 28
    with pytest.raises(Conflict, match="erased already"):
        await erasing.erase(gone)


async def test_a_tenant_in_use_is_not_erased(database: Database, settings: Settings, erasing: Erasing) -> None:
    tenant = await Tenants(database.control).create(fresh_name("used"))
    with pytest.raises(Conflict, match="only a deleted"):
        await erasing.erase(tenant)


async def test_an_erasure_waits_for_the_longest_write(
    database: Database, settings: Settings, vault: Vault, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call on the whole graph may have begun just before the tenant was deleted."""
    tenant = await Tenants(database.control).create(fresh_name("waited"))
    gone = await deleted(database, tenant)
    limits = settings.limits.model_copy(update={"write_seconds": 0.01, "whole_graph_seconds": 0.4})
    monkeypatch.setattr("app.access.erasing._FOLLOW_SECONDS", 0.0)
    monkeypatch.setattr("app.access.erasing.OVERRUN_SECONDS", 0.2)
    patient = Erasing(database, replace(settings, limits=limits), vault)
    monkeypatch.setattr("app.access.erasing._SHOWN_SECONDS", 0.2)
    told: list[str] = []
    began = time.monotonic()
    await patient.erase(gone, shown=told.append)
    assert "under way" in told[0]
    assert "left" in told[1]
    assert told[-1] == "Erasing"
    assert time.monotonic() - began >= limits.whole_graph_seconds + 0.2, "and for what it may run past its deadline"


async def test_a_text_that_names_a_tenant_neither_blocks_its_erasure_nor_goes_with_it(
    database: Database, vault: Vault, erasing: Erasing
) -> None:
    """What other tenants, people and programs wrote is theirs."""
    accounts, tenants = Accounts(database.control, vault, admin_tenant="admin"), Tenants(database.control)
    gone, other = await tenants.create(fresh_name("named")), await tenants.create(fresh_name("naming"))
    note = f"see {gone.id} and {gone.data}"
    user, _ = await accounts.add_user(fresh_email(), other, Role.OWNER)
    agent = SessionRecord(digest(user.id), user.id, "https://x.example", 1.0, 9e9, agent=note)
    await BrowserStore(database.control).add_session(agent)
    await ClientStore(database.control).add(ClientRecord(digest(note), "x", "", note, "x.example", 1.0))
    await accounts.audit.append(tenant=other.id, actor=user.id, action="token.create", target=note)
    await fill(database, other.data, note)
    revocation = Revocation.of_member(user.id, gone.id)
    await Revocations(database.control).revoke(revocation)
    before = await counted(database.control, other.data), await counted(database.control, other.id)
    made = await erasing.erase(await deleted(database, gone))
    assert made["certificate"]["left"] == {}
    assert (await counted(database.control, other.data), await counted(database.control, other.id)) == before
    assert [each.agent for each in await BrowserStore(database.control).sessions_of(user.id, 2.0)] == [note]
    assert revocation not in await Revocations(database.control).current(), "what nobody owns goes"


async def test_a_tenant_of_which_something_stays_keeps_no_other_from_being_erased(
    database: Database, erasing: Erasing
) -> None:
    tenants = Tenants(database.control)
    made = [await tenants.create(fresh_name("swept")) for _ in range(2)]
    first, second = sorted([await deleted(database, each) for each in made], key=lambda each: each.id)
    await database.control.write(lambda writing: writing.run(REMNANT, note=first.id))
    try:
        await erasing.sweep()
    finally:
        await database.control.write(lambda writing: writing.run(NO_REMNANT))
    left = [each.id for each in await erasing.pending()]
    assert first.id in left
    assert second.id not in left
    await erasing.sweep()
    assert first.id not in [each.id for each in await erasing.pending()]
