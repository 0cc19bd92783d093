"""Revocation ends the whole grant, whichever token is given back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from app.store.control.revocations import RevocationKind, Revocations
from app.store.database import Database
from tests.oauth.conftest import Life


async def revoke(life: Life, token: str, **form: str) -> Any:
    data = {"client_id": life.client["client_id"], "token": token, **form}
    return await life.browser.post(f"{life.address}/revoke", data=data)


@pytest.mark.parametrize("kind", ["access_token", "refresh_token"])
async def test_either_token_ends_the_grant(life: Life, database: Database, kind: str) -> None:
    tokens = await life.tokens()
    answer = await revoke(life, tokens[kind], token_type_hint="nonsense")
    assert (answer.status_code, answer.headers["cache-control"]) == (200, "no-store")
    assert (await life.refresh(tokens["refresh_token"])).json()["error"] == "invalid_grant"
    grant = (await life.claims(tokens["access_token"]))["gk"]["grant"]
    revoked = await Revocations(database.control).current()
    assert (RevocationKind.GRANT, grant) in {(entry.kind, entry.key) for entry in revoked}


async def test_a_token_that_is_none_changes_nothing_and_is_no_error(life: Life) -> None:
    tokens = await life.tokens()
    for token in ("nothing", "a.b.c", "é" * 40, "eyJhbGciOiJub25lIn0.e30.", "x" * 9000):
        assert (await revoke(life, token)).status_code == 200, token
    assert (await life.refresh(tokens["refresh_token"])).status_code == 200


async def test_another_client_cannot_end_it(life: Life, open_life: Callable[..., Any]) -> None:
    tokens = await life.tokens()
    other: Life = await open_life(life.gateway, life.person)
    await other.register(client_name="Another")
    for token in (tokens["access_token"], tokens["refresh_token"]):
        assert (await revoke(other, token)).status_code == 200
    assert (await life.refresh(tokens["refresh_token"])).status_code == 200


async def test_a_confidential_client_must_prove_itself(life: Life) -> None:
    await life.register(token_endpoint_auth_method="client_secret_post")
    answer = await revoke(life, "x")
    assert (answer.status_code, answer.json()["error"]) == (401, "invalid_client")
    assert (await revoke(life, "x", client_secret=life.client["client_secret"])).status_code == 200
