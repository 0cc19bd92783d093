"""The console of a whole gateway, behind its edge: what is done there reaches the tools within seconds."""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from pathlib import Path

import httpx2

from app.access.service import accounts_of
from app.context import Role
from app.oauth.login.sessions import cookie_name
from app.oauth.secrets import Secrets, digest
from app.oauth.service import SECRET_NAME
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.database import Database
from tests.conftest import Server
from tests.gateway import Gateway, owner_token, running, settings_for
from tests.identity import fresh_email, vault_of


async def a_session(database: Database, address: str, user: str) -> str:
    token, now = secrets.token_urlsafe(32), time.time()
    record = SessionRecord(digest(token), user, address, now, now + 600, "password", "")
    await BrowserStore(database.control).add_session(record)
    return token


async def until(gateway: Gateway, client: httpx2.AsyncClient, status: int) -> httpx2.Response:
    """The first answer to a call that has this status; every replica reads of a change within 5 s."""
    async with asyncio.timeout(60):
        while True:
            answer = await gateway.ask(client, "tools/call", name="graph_stats", arguments={})
            if answer.status_code == status:
                return answer
            await asyncio.sleep(0.2)


async def test_a_tenant_that_an_operator_suspends_is_refused_and_goes_on_when_resumed(
    neo4j_server: Server, database: Database, tmp_path: Path
) -> None:
    settings = settings_for(neo4j_server, tmp_path)
    accounts = accounts_of(settings, database)
    token = await owner_token(settings, database)
    operators = await accounts.tenants.ensure("admin", admin=True)
    operator, _ = await accounts.add_user(fresh_email(), operators, Role.OWNER)
    keys = Secrets(await vault_of(database, tmp_path).secret(SECRET_NAME))
    async with running(settings, token) as gateway, gateway.client() as client:
        (tenant,) = {each.tenant for each in await accounts.list_tokens() if each.id == token_id(token)}
        cookie = await a_session(database, gateway.url, operator.id)
        door = await client.get("/")
        assert (door.status_code, door.headers["location"]) == (303, "/console")

        async def post(action: str) -> httpx2.Response:
            path = f"/console/gateway/tenants/{tenant}/{action}"
            return await client.post(
                path,
                data={"csrf": keys.token("csrf", gateway.url, cookie, path)},
                headers={"Cookie": f"{cookie_name(gateway.url)}={cookie}"},
            )

        await until(gateway, client, 200)
        page = await client.get("/console", headers={"Cookie": ""})
        assert (page.status_code, page.headers["location"]) == (303, "/sign-in?request=/console")
        assert (await post("suspend")).status_code == 303
        assert "suspended" in (await until(gateway, client, 403)).text
        assert (await post("resume")).status_code == 303
        await until(gateway, client, 200)
        assert (await client.get(f"/console/gateway/tenants/{tenant}/suspend")).status_code == 405


def token_id(token: str) -> str:
    """The id inside a personal token."""
    return str(json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))["jti"])
