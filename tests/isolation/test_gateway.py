"""The same through the whole gateway: HTTP, tokens, pipeline. It proves the wiring; the cells prove the tools."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
import pytest_asyncio

from app.access.service import accounts_of
from app.context import Role
from app.ingest.http import routes as upload_routes
from app.oauth.pages import SCRIPT_PATH, STYLE_PATH
from app.oauth.routes import routes
from app.protocol.registry import Registry
from app.store.database import Database
from tests.conftest import Server
from tests.identity import fresh_email, fresh_name
from tests.isolation.callers import UPLOAD, Leases, without
from tests.isolation.recipes import CELLS, GUESSED, OWN, PAGES_WITHOUT_MEMORY, RECIPES, SURFACES
from tests.isolation.test_cells import READS
from tests.isolation.world import FOREIGN, HIDDEN, IN_A, IN_B, IN_C, VISIBLE, WIDE, Step, leaks
from tests.test_main import Gateway, running, settings_for

LAYERS = {WIDE.name: "tenant", IN_A.name: "a", IN_B.name: "b", IN_C.name: "c"}


@dataclass
class Tokens:
    """Of a tenant's owner (all layers), of its reader of ``a``, of its twin's two, of another tenant's owner."""

    owner: str
    reader: str
    lonely_owner: str
    lonely_reader: str
    foreign: str


@pytest_asyncio.fixture(scope="module")
async def gateway(
    neo4j_server: Server, database: Database, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[Gateway, Tokens]]:
    settings = settings_for(neo4j_server, _home(tmp_path_factory))
    accounts = accounts_of(settings, database)

    async def tenant() -> tuple[str, str]:
        made = await accounts.create_tenant(fresh_name("tenant"))
        user, _ = await accounts.add_user(fresh_email(), made.name, Role.OWNER)
        every = await accounts.create_token(
            user.email, made.name, read_layers=["tenant", "a", "b", "c"], write_layers=["tenant", "a", "b", "c"]
        )
        some = await accounts.create_token(user.email, made.name, read_layers=["tenant", "a"], write_layers=["a"])
        return every.text, some.text

    tokens = Tokens(*await tenant(), *await tenant(), (await tenant())[0])
    async with running(settings, tokens.owner) as found:
        await _play(found, tokens.owner, [*HIDDEN["memory"], *HIDDEN["ingest"], *VISIBLE["memory"], *VISIBLE["ingest"]])
        await _play(found, tokens.lonely_owner, [*VISIBLE["memory"], *VISIBLE["ingest"]])
        await _play(found, tokens.foreign, [*FOREIGN["memory"][:3], *FOREIGN["ingest"][:6]])
        yield found, tokens


def _home(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("gk")


async def _play(gateway: Gateway, token: str, steps: Any) -> None:
    leases = Leases()
    async with gateway.client(token) as client:
        for number, step in enumerate(steps):
            assert isinstance(step, Step)
            if step.tool == UPLOAD:
                sent = {"params": {"layer": LAYERS[step.caller.name]}, "content": step.arguments["content"]}
                assert (await client.put(f"/ingest/{step.arguments['name']}", **sent)).json()["ok"]
                continue
            sure = {"idempotency_key": f"step {number}", "layers": [LAYERS[step.caller.name]]}
            said = await gateway.insist(client, step.tool, **{**leases.given(step.caller, step.arguments), **sure})
            assert said["ok"], said
            leases.keep(step.caller, said)


async def test_the_gateway_lists_the_tools_with_recipes(gateway: tuple[Gateway, Tokens], registry: Registry) -> None:
    found, tokens = gateway
    async with found.client(tokens.owner) as client:
        listed = (await found.ask(client, "tools/list")).json()["result"]["tools"]
    everyones = {tool.name for tool in registry if not tool.operators_only}
    assert {tool["name"] for tool in listed} == everyones
    assert everyones <= set(RECIPES)


async def test_what_is_listed_besides_tools_has_recipes(gateway: tuple[Gateway, Tokens]) -> None:
    found, tokens = gateway
    keys = {"prompts": "prompts", "resources": "resources", "resources/templates": "resourceTemplates"}
    async with found.client(tokens.owner) as client:
        for surface, names in SURFACES.items():
            listed = (await found.ask(client, f"{surface}/list")).json()["result"][keys[surface]]
            assert {item["name"] for item in listed} == names


def test_every_page_is_known_to_read_no_memory() -> None:
    paths = {route.path for route in routes(None)}  # type: ignore[arg-type] - no handler is called
    assert {path for path in paths if not path.startswith("/.well-known/")} == PAGES_WITHOUT_MEMORY | {
        STYLE_PATH,
        SCRIPT_PATH,
    }


def test_every_upload_route_is_known() -> None:
    found = {(route.path, *sorted(route.methods or ())) for route in upload_routes(None)}  # type: ignore[arg-type]
    assert found == {
        ("/ingest", "POST"),
        ("/ingest/uploads", "OPTIONS", "POST"),
        ("/ingest/uploads/{upload}", "DELETE", "HEAD", "OPTIONS", "PATCH"),
        ("/ingest/{name}", "GET", "HEAD", "PUT"),
    }


async def test_an_upload_of_another_tenant_or_layer_is_answered_like_one_that_never_was(
    gateway: tuple[Gateway, Tokens],
) -> None:
    found, tokens = gateway
    begin = {"Tus-Resumable": "1.0.0", "Upload-Length": "10", "Upload-Metadata": f"filename {_base64('qzx.md')}"}
    async with found.client(tokens.reader) as mine, found.client(tokens.foreign) as theirs:
        known = await mine.get("/ingest/first-talk.jsonl")
        assert (known.status_code, known.json()["layer"]) == (200, "a")
        for name in ("qzx-b.jsonl", "qzx-t.jsonl", "qzx-never.jsonl"):
            answer = await mine.get(f"/ingest/{name}")
            assert (answer.status_code, leaks(answer.json()["message"])) == (404, [])
        for layer in ("b", "tenant", "z"):
            refused = await mine.put("/ingest/x.md", params={"layer": layer}, content=b"x")
            assert (refused.status_code, refused.json()["reason"]) == (403, "forbidden")
            assert leaks(refused.text) == []
        begun = await theirs.post("/ingest/uploads", headers=begin)
        assert begun.status_code == 201, begun.text
        for method in ("HEAD", "DELETE"):
            path = begun.headers["location"]
            asked = await mine.request(method, path, headers=begin)
            made_up = await mine.request(method, path[:-4] + "0000", headers=begin)
            assert asked.status_code == made_up.status_code == 404
        assert (await theirs.head(path, headers=begin)).status_code == 200


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _numbered(answer: object) -> str:
    """The answer with persons numbered as they appear: each of two tenants has its own, who sent the same."""
    met: dict[str, str] = {}
    text = orjson.dumps(answer).decode()
    return re.sub(r"\bus-[0-9a-f]{24}\b", lambda found: met.setdefault(found[0], f"person {len(met)}"), text)


@pytest.mark.parametrize("tool", READS)
async def test_a_token_of_some_layers_is_answered_as_if_the_rest_did_not_exist(
    gateway: tuple[Gateway, Tokens], registry: Registry, tool: str
) -> None:
    found, tokens = gateway
    volatile = registry.tools[tool].volatile
    seen = False
    async with found.client(tokens.reader) as crowded, found.client(tokens.lonely_reader) as lonely:
        for cell in ("own", "other tenant", "other layer"):
            aim = CELLS[cell][0]
            for recipe in RECIPES[tool][:4]:
                here = await _asked(found, crowded, tool, recipe.arguments(aim))
                there = await _asked(found, lonely, tool, recipe.arguments(aim))
                assert _numbered(without(here, volatile)) == _numbered(without(there, volatile)), recipe.title
                text = str(here).replace(aim.subject, "?").replace(aim.subject[:-1], "?").replace(aim.words, "?")
                assert (leaks(text) if aim is not OWN else leaks(str(here))) == []
                seen = seen or (aim is OWN and here["ok"])
    assert seen


async def test_what_another_tenant_wrote_is_not_found_and_its_token_finds_it(gateway: tuple[Gateway, Tokens]) -> None:
    found, tokens = gateway
    aim = CELLS["other tenant"][0]
    async with found.client(tokens.owner) as mine, found.client(tokens.foreign) as theirs:
        assert (await found.insist(theirs, "graph_entities", id=aim.subject))["found"]
        hidden = await found.insist(mine, "graph_entities", id=aim.subject)
        assert hidden == await found.insist(mine, "graph_entities", id=GUESSED.subject)


async def test_a_write_to_a_layer_that_was_not_granted_is_refused(gateway: tuple[Gateway, Tokens]) -> None:
    found, tokens = gateway
    arguments = RECIPES["graph_relate"][1].arguments(OWN)
    async with found.client(tokens.reader) as client:
        for layer in ("b", "tenant", "z"):
            said = await found.insist(client, "graph_relate", **arguments, layers=[layer])
            assert (said["ok"], said["reason"], said["outcome"]) == (False, "forbidden", "not_applied")
            assert leaks(str(said)) == []


async def _asked(gateway: Gateway, client: httpx2.AsyncClient, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    return await gateway.insist(client, tool, **arguments)


async def test_an_export_is_there_only_for_who_made_it_and_may_read_all_of_it(
    gateway: tuple[Gateway, Tokens],
) -> None:
    """Partition rule 18: the same person with fewer layers, and other tenants, are told what a made-up name is told."""
    found, tokens = gateway
    async with found.client(tokens.owner) as client:
        made = await found.insist(client, "graph_export", label="all")
        path = f"/exports/{made['backup_file']}"
        whole = await client.get(path)
        assert hashlib.sha256(whole.content).hexdigest() == made["sha256"]
        assert whole.headers["cache-control"] == "no-store"
        assert made["backup_file"] in {each["name"] for each in (await client.get("/exports")).json()["exports"]}
        assert (await client.put(path, content=b"x")).status_code == 405
        assert (await client.get("/exports/..%2f..%2fsecret.key")).status_code == 404
    for token in (tokens.reader, tokens.lonely_owner, tokens.foreign):
        async with found.client(token) as client:
            hidden, invented = await client.get(path), await client.get("/exports/2026-01-01T00-00-00.jsonl")
            assert (hidden.status_code, invented.status_code) == (404, 404)
            assert {**hidden.json(), "request_id": ""} == {**invented.json(), "request_id": ""}
            assert (await client.get("/exports")).json()["exports"] == []
    async with found.client("no token") as client:
        assert (await client.get(path)).status_code == 401
