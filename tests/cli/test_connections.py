"""Clients, grants, service accounts and keys on the command line."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr

from app.access.service import accounts_of
from app.cli.connections import Connections
from app.context import Role
from app.errors import NotFound
from app.settings import OAuthSettings, RunSettings, Settings
from app.store.control.clients import ClientStore
from app.store.control.grants import GrantRecord, GrantStore
from app.store.control.revocations import Revocation, RevocationKind, Revocations, client_key
from app.store.database import Database
from tests.cli.conftest import GRAPHKEEP
from tests.conftest import Server
from tests.identity import SECRET_KEY, fresh_email, fresh_name

CALLBACK = "http://127.0.0.1/callback"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(run=RunSettings(home=tmp_path), oauth=OAuthSettings(secret_key=SecretStr(SECRET_KEY)))


@pytest.fixture
def connections(database: Database, settings: Settings) -> Connections:
    return Connections(database, settings)


async def a_grant(database: Database, settings: Settings) -> tuple[GrantRecord, str, str]:
    """A grant of someone in a tenant of their own, their address and the tenant's name."""
    accounts = accounts_of(settings, database)
    tenant = await accounts.create_tenant(fresh_name("tenant"))
    user, _ = await accounts.add_user(fresh_email(), tenant.name, Role.OWNER)
    client_id, now = f"client-{secrets.token_hex(6)}", time.time()
    grant = GrantRecord(
        id=f"gr-{secrets.token_hex(12)}",
        user=user.id,
        tenant=tenant.id,
        client=client_key(client_id),
        client_id=client_id,
        client_name="Claude",
        host="claude.ai",
        issuer="https://gw.example",
        asked=["memory:read"],
        scopes=["memory:read"],
        read_layers=["*"],
        write_layers=[],
        created_at=now,
        last_used=now,
        expires_at=now + 600,
    )
    await GrantStore(database.control).add(grant)
    await ClientStore(database.control).remember(
        key=grant.client, client_id=client_id, issuer=grant.issuer, name="Claude", host="claude.ai", now=now
    )
    return grant, user.email, tenant.name


async def test_a_client_is_added_listed_removed_and_restored(connections: Connections) -> None:
    made = await connections.add_client("My client", [CALLBACK], "client_secret_post")
    assert made["client_secret"]
    listed = {each["client_id"]: each for each in await connections.clients()}[made["client_id"]]
    assert (listed["kind"], listed["state"], listed["redirect_uris"]) == ("added", "known", [CALLBACK])
    assert "client_secret" not in listed
    assert (await connections.remove_client(made["client_id"]))["state"] == "deleted"
    listed = {each["client_id"]: each for each in await connections.clients()}[made["client_id"]]
    assert listed["state"] == "deleted"
    assert (await connections.restore_client(listed["id"]))["state"] == "known"


async def test_grants_are_listed_by_user_and_tenant_until_they_are_revoked(
    connections: Connections, database: Database, settings: Settings
) -> None:
    grant, email, tenant = await a_grant(database, settings)
    (shown,) = await connections.grants(email, None)
    assert (shown["id"], shown["client"], shown["host"]) == (grant.id, "Claude", "claude.ai")
    assert [each["id"] for each in await connections.grants(None, tenant)] == [grant.id]
    assert [each["id"] for each in await connections.grants(email, tenant)] == [grant.id]
    assert grant.id in {each["id"] for each in await connections.grants(None, None)}
    await connections.revoke_grant(grant.id)
    assert await connections.grants(email, None) == []
    revoked = {(each.kind, each.key) for each in await Revocations(database.control).current()}
    assert (RevocationKind.GRANT, grant.id) in revoked
    with pytest.raises(NotFound):
        await connections.revoke_grant("gr-nothing")


async def test_the_last_use_of_a_grant_is_shown_and_only_moves_on(
    connections: Connections, database: Database, settings: Settings
) -> None:
    grant, email, _ = await a_grant(database, settings)
    later = int(grant.last_used * 1000) + 3_600_000
    for use in (later, later - 1_800_000):
        await GrantStore(database.control).note_use({grant.id: use, "gr-unknown": use})
    (shown,) = await connections.grants(email, None)
    assert datetime.fromisoformat(shown["used"]).timestamp() == later // 1000


@pytest.mark.parametrize("ending", ["client", "membership", "user"])
async def test_a_grant_that_ended_with_its_client_user_or_membership_is_not_listed(
    connections: Connections, database: Database, settings: Settings, ending: str
) -> None:
    grant, email, tenant = await a_grant(database, settings)
    accounts = accounts_of(settings, database)
    if ending == "client":
        await connections.remove_client(grant.client_id)
    elif ending == "membership":
        await accounts.add_user(fresh_email(), tenant, Role.OWNER)
        await accounts.add_user(email, tenant, Role.READER)
    else:
        await Revocations(database.control).revoke(Revocation.of_user(grant.user))
    assert await connections.grants(email, None) == []
    assert await connections.grants(None, tenant) == []


async def test_a_service_account_is_added_listed_renewed_and_removed(
    connections: Connections, database: Database, settings: Settings
) -> None:
    accounts = accounts_of(settings, database)
    tenant = (await accounts.create_tenant(fresh_name("tenant"))).name
    made = await connections.add_account(
        tenant, "nightly", scopes=["memory:read", "memory:write"], read=["tenant", "work"], write=["work"]
    )
    assert made["client_secret"]
    assert made["token_endpoints"][0].endswith("/token")
    (listed,) = await connections.accounts(tenant)
    assert (listed["read_layers"], listed["write_layers"], listed["write_layer"]) == (
        ["tenant", "work"],
        ["work"],
        "work",
    )
    assert "client_secret" not in listed
    assert (await connections.renew_account(tenant, "nightly"))["client_secret"] != made["client_secret"]
    await connections.remove_account(tenant, made["client_id"])
    assert await connections.accounts(tenant) == []
    with pytest.raises(NotFound):
        await connections.remove_account(tenant, "nightly")


def test_the_commands_answer_in_json(neo4j_server: Server, tmp_path: Path) -> None:
    environment = {
        "NEO4J_URI": neo4j_server.uri,
        "NEO4J_PASSWORD": neo4j_server.password,
        "GRAPHKEEP_HOME": str(tmp_path),
        "GRAPHKEEP_SECRET_KEY": SECRET_KEY,
    }

    def run(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*GRAPHKEEP, *words, "--json"],
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    made = run("client", "add", "Client of a command", "--redirect-uri", CALLBACK)
    assert made["client_secret"]
    assert [each["state"] for each in run("key", "list")["keys"]].count("signs") >= 1
