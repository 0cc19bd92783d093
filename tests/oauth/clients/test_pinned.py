"""Documents that are known without a fetch, and those that an operator pins."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.errors import StartError
from app.oauth.clients.cimd import read_metadata
from app.oauth.clients.pinned import CLAUDE, CLAUDE_CODE, pinned_documents
from app.oauth.clients.redirect import RedirectPolicy
from app.settings import OAuthSettings
from tests.oauth.conftest import Life

MINE = {
    "client_id": "https://client.invalid/metadata",
    "client_name": "Client of a network without a way out",
    "redirect_uris": ["http://127.0.0.1/callback"],
}


@pytest.mark.parametrize("document", [CLAUDE, CLAUDE_CODE])
def test_the_known_documents_serve_with_the_settings_as_they_come(document: dict[str, Any]) -> None:
    policy = RedirectPolicy(OAuthSettings().redirect_hosts)
    client = read_metadata(document["client_id"], document, address="https://gw.example", policy=policy)
    assert client.redirect_uris == tuple(document["redirect_uris"])
    assert (client.confidential, client.host, client.scope) == (False, "claude.ai", "")


async def test_a_pinned_document_connects_its_client_without_a_fetch(
    start_gateway: Callable[..., Any], open_life: Callable[..., Any], tmp_path: Path
) -> None:
    file = tmp_path / "clients.json"
    file.write_text(json.dumps([MINE]))
    life: Life = await open_life(await start_gateway(pinned_clients=file))
    life.client = {"client_id": MINE["client_id"], "redirect_uris": ["http://127.0.0.1:1/callback"]}
    assert "access_token" in await life.tokens(scope=None)


def test_what_an_operator_pins_counts_more_than_what_is_known(tmp_path: Path) -> None:
    file = tmp_path / "clients.json"
    file.write_text(json.dumps([{**CLAUDE, "client_name": "Newer"}]))
    assert pinned_documents(file)[-1]["client_name"] == "Newer"


@pytest.mark.parametrize("text", ["", "{}", "[1]", '[{"client_name": "x"}]', None])
def test_a_file_that_is_of_no_use_stops_the_start_with_the_reason(tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "clients.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(StartError, match="GRAPHKEEP_PINNED_CLIENTS"):
        pinned_documents(file)
