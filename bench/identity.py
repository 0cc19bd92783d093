"""What identity costs: judging a token, and the way from an authorization request to tokens."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2

from app.access.service import accounts_of
from app.access.snapshot import Snapshot
from app.access.verify import Verifier
from app.cli.connector.browser import Browser
from app.context import Role
from app.oauth.login.sessions import cookie_name
from app.oauth.sealing import Sealer
from app.oauth.secrets import digest
from app.oauth.vault import Vault
from app.settings import RunSettings, Settings
from app.store.control.browser import BrowserStore, SessionRecord
from app.store.control.keys import Keys
from app.store.database import Database
from bench.figures import Figures
from bench.stage import Gateway, Stage, said

__all__ = ["measured"]

ALLOW: Final = ("answer", "allow")
CALLBACK: Final = "http://127.0.0.1:49152/callback"
STEPS: Final = ("authorize and consent page", "consent", "token")
BATCHES: Final = 20
"""A batch is timed as a whole, since reading the clock costs a part of what is measured; the median batch counts."""


async def measured(stage: Stage, running: Gateway, *, connections: int, verifications: int) -> dict[str, Any]:
    """``connections`` ways from request to tokens, then ``verifications`` of what the last of them gave and of a
    personal token: microseconds a call, for a token that the replica has judged before and for one that it has not."""
    address = running.url.removesuffix("/mcp")
    settings = Settings(run=RunSettings(home=stage.home))
    folder = stage.home / "bench-snapshot"
    await asyncio.to_thread(folder.mkdir)
    target = stage.target
    database = await Database.connect(target.uri, target.user, target.password, target.database, pool_size=5)
    try:
        said("Connecting")
        durations, token = await _connections(settings, database, address, connections)
        said("Verifying")
        snapshot = await _snapshot(settings, database, folder)
        return {
            "authorize_to_token": Figures.of([sum(steps) for steps in durations], sum(map(sum, durations))).as_dict(),
            "steps_p50_ms": {
                step: round(median(each[place] for each in durations) * 1000, 2) for place, step in enumerate(STEPS)
            },
            "verify_us": {
                kind: _verification(snapshot, text, address, verifications)
                for kind, text in (("access token", token), ("personal token", stage.tokens[0]))
            },
        }
    finally:
        await database.close()


async def _snapshot(settings: Settings, database: Database, folder: Path) -> Snapshot:
    """What a replica judges by, read from the database that the gateway works with."""
    sealer = Sealer.of(settings.oauth, settings.run.folder)
    snapshot = Snapshot(database.control, Vault(Keys(database.control), sealer), sealer, folder)
    await snapshot.refresh()
    return snapshot


def _verification(snapshot: Snapshot, token: str, address: str, number: int) -> dict[str, float]:
    """Microseconds by whether the replica knows the token. For one that is new, each call has a verifier of its own."""
    known = Verifier(snapshot)
    known.verify(token, address)
    fresh = [Verifier(snapshot) for _ in range(number // 10)]
    return {
        "judged before": _microseconds([known] * number, lambda verifier: verifier.verify(token, address)),
        "new": _microseconds(fresh, lambda verifier: verifier.verify(token, address)),
    }


def _microseconds(verifiers: Sequence[Verifier], call: Callable[[Verifier], object]) -> float:
    size = max(1, len(verifiers) // BATCHES)
    spent = []
    for start in range(0, len(verifiers) - size + 1, size):
        batch = verifiers[start : start + size]
        began = time.perf_counter()
        for verifier in batch:
            call(verifier)
        spent.append((time.perf_counter() - began) / size)
    return round(median(spent) * 1e6, 2)


async def _connections(
    settings: Settings, database: Database, address: str, number: int
) -> tuple[list[tuple[float, float, float]], str]:
    """Seconds of each step of each connection, and the last access token. The person is signed in."""
    accounts = accounts_of(settings, database)
    tenant = await accounts.create_tenant("bench-identity")
    user, _ = await accounts.add_user("connect@example.com", tenant.name, Role.OWNER)
    session, now = secrets.token_urlsafe(32), time.time()
    await BrowserStore(database.control).add_session(SessionRecord(digest(session), user.id, address, now, now + 3600))
    durations, token = [], ""
    async with httpx2.AsyncClient(base_url=address, trust_env=False, timeout=60) as client:
        browser = Browser(client, address)
        browser.cookies[cookie_name(address)] = session
        registered = (await client.post("/register", json={"redirect_uris": [CALLBACK]})).raise_for_status().json()
        for turn in range(number + max(1, number // 10)):
            steps, token = await _connection(client, browser, registered["client_id"])
            if turn >= max(1, number // 10):  # the first tenth warms up
                durations.append(steps)
    return durations, token


async def _connection(
    client: httpx2.AsyncClient, browser: Browser, client_id: str
) -> tuple[tuple[float, float, float], str]:
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    asked = {
        "response_type": "code",
        "client_id": client_id,
        "redirect_uri": CALLBACK,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    began = time.perf_counter()
    page = await browser.get(f"/authorize?{urlencode(asked)}")
    shown = time.perf_counter()
    form = page.form(*ALLOW)
    if form is None:
        raise RuntimeError(f"no consent page: {page.status} at {page.path}")
    answering = time.perf_counter()  # reading the page is the person's part
    back = await browser.submit(page, form, ALLOW)
    answered = time.perf_counter()
    code = parse_qs(urlsplit(back.elsewhere).query)["code"][0]
    exchanging = time.perf_counter()
    given = {"grant_type": "authorization_code", "code": code, "redirect_uri": CALLBACK, "code_verifier": verifier}
    answer = await client.post("/token", data={"client_id": client_id, **given})
    ended = time.perf_counter()
    token: str = answer.raise_for_status().json()["access_token"]
    return (shown - began, answered - answering, ended - exchanging), token
