"""Clients that an operator adds: a secret whose hash alone is kept, and redirect URIs that count byte for byte."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.errors import Conflict, InvalidInput, NotFound
from app.oauth.clients.preset import PresetClients
from app.oauth.clients.redirect import RedirectPolicy
from app.store.control.revocations import RevocationKind, client_key
from app.store.database import Database
from tests.oauth.conftest import CALLBACK, Gateway, Life

WEB = "https://claude.ai/api/mcp/auth_callback"


@pytest.fixture
def preset(database: Database) -> PresetClients:
    return PresetClients(database.control, RedirectPolicy(["https://claude.ai"]))


async def added(life: Life, preset: PresetClients, **options: Any) -> str:
    record, secret = await preset.add("Own client", [WEB, CALLBACK], actor="command", **options)
    life.client = {"client_id": record.client_id, "redirect_uris": [WEB]}
    return secret or ""


@pytest.fixture
async def someone(gateway: Gateway, open_life: Callable[..., Any]) -> Life:
    life: Life = await open_life(gateway)
    return life


async def test_an_added_client_connects_with_its_secret_in_body_or_header(someone: Life, preset: PresetClients) -> None:
    secret = await added(someone, preset)
    page = await someone.to_consent()
    assert "Own client" in page.text
    tokens = await someone.exchange(someone.returned(await someone.answer(page))["code"], client_secret=secret)
    assert tokens.status_code == 200, tokens.text
    refreshed = await someone.browser.post(
        f"{someone.address}/token",
        data={"grant_type": "refresh_token", "refresh_token": tokens.json()["refresh_token"]},
        auth=(someone.client["client_id"], secret),
    )
    assert refreshed.status_code == 200, refreshed.text


async def test_only_a_hash_of_the_secret_is_kept(someone: Life, preset: PresetClients) -> None:
    secret = await added(someone, preset)
    kept = await someone.gateway.main.clients.find(client_key(someone.client["client_id"]))
    assert kept is not None
    assert secret not in repr(kept)
    assert len(kept.secret) == 64


@pytest.mark.parametrize("given", [None, "", "guess"])
async def test_without_its_secret_an_added_client_gets_nothing(
    someone: Life, preset: PresetClients, given: str | None
) -> None:
    await added(someone, preset)
    answer = await someone.exchange(await someone.code(), client_secret=given)
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")


async def test_an_added_public_client_needs_none(someone: Life, preset: PresetClients) -> None:
    assert await added(someone, preset, method="none") == ""
    assert await someone.tokens()


async def test_its_redirect_uris_count_byte_for_byte(someone: Life, preset: PresetClients) -> None:
    await added(someone, preset)
    for uri in (WEB + "/", WEB + "?a=b", WEB.replace("api", "API"), "https://claude.ai.evil/api/mcp/auth_callback"):
        answer = await someone.ask(redirect_uri=uri)
        assert (answer.status_code, "location" in answer.headers) == (400, False)


async def test_a_removed_client_is_unknown_everywhere_and_comes_back_without_its_grants(
    someone: Life, preset: PresetClients
) -> None:
    secret = await added(someone, preset)
    tokens = (await someone.exchange(await someone.code(), client_secret=secret)).json()
    code = await someone.code()
    waiting = await someone.to_consent()
    await preset.remove(someone.client["client_id"], actor="command")
    assert (await someone.ask()).status_code == 400
    assert (await someone.answer(waiting)).status_code == 400
    proof = {"client_id": someone.client["client_id"], "client_secret": secret}
    for path, form in (
        ("/token", {"grant_type": "authorization_code", "code": code, "code_verifier": someone.verifier}),
        ("/token", {"grant_type": "refresh_token", "refresh_token": tokens["refresh_token"]}),
        ("/revoke", {"token": tokens["refresh_token"]}),
        ("/introspect", {"token": tokens["access_token"]}),
    ):
        answer = await someone.browser.post(someone.address + path, data={**form, **proof})
        assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client"), path
    await preset.restore(someone.client["client_id"], actor="command")
    refused = await someone.refresh(tokens["refresh_token"], client_secret=secret)
    assert refused.json()["error"] == "invalid_grant"
    again = await someone.exchange(await someone.code(), client_secret=secret)
    assert again.status_code == 200, again.text


async def test_restoring_a_client_that_was_not_removed_disconnects_nobody(preset: PresetClients, life: Life) -> None:
    tokens = await life.tokens()
    with pytest.raises(Conflict, match="Nothing was changed"):
        await preset.restore(life.client["client_id"], actor="command")
    grant = (await life.claims(tokens["access_token"]))["gk"]["grant"]
    assert not await life.gateway.main.revocations.names(RevocationKind.GRANT, grant)
    assert (await life.refresh(tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize(
    ("name", "uris", "method"),
    [
        ("", [WEB], "none"),
        ("x" * 101, [WEB], "none"),
        ("Client", [], "none"),
        ("Client", [WEB] * 11, "none"),
        ("Client", ["https://evil.example/"], "none"),
        ("Client", ["https://claude.ai/#part"], "none"),
        ("Client", [WEB], "private_key_jwt"),
    ],
)
async def test_what_cannot_work_is_not_added(preset: PresetClients, name: str, uris: list[str], method: str) -> None:
    with pytest.raises(InvalidInput):
        await preset.add(name, uris, method=method, actor="command")


async def test_a_client_that_nobody_knows_cannot_be_removed(preset: PresetClients) -> None:
    for change in (preset.remove, preset.restore):
        with pytest.raises(NotFound):
            await change("cl-nothing", actor="command")
