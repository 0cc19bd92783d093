"""``graphkeep doctor``: what works, what does not, and what to do about it. Changes nothing."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2

from app.cli.client.console import emit, say
from app.cli.client.variables import unknown_variables
from app.cli.database import running
from app.counting import counted
from app.errors import CallError, StartError
from app.memory.analysis.anew import without_vector
from app.settings import Settings
from app.store import integrity
from app.store.control.embedding import decision
from app.store.database import Database
from app.store.schema import VERSION, status

__all__ = ["Finding", "run"]

_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """One check. ``remedy`` is empty where nothing is to do; ``warning`` marks what does not fail the whole."""

    check: str
    ok: bool
    detail: str
    remedy: str = ""
    warning: bool = False


def run(settings: Settings, *, as_json: bool, alive: bool) -> int:
    """Check, print, and answer with the exit code: 0 if nothing fails."""
    findings = asyncio.run(_alive(settings) if alive else _examine(settings))
    healthy = all(found.ok or found.warning for found in findings)
    if as_json:
        emit({"ok": healthy, "checks": [asdict(found) for found in findings]})
    else:
        for found in findings:
            say(
                f"{'ok     ' if found.ok else 'warning' if found.warning else 'FAILED '}  {found.check}: {found.detail}"
            )
            if found.remedy:
                say(f"         {found.remedy}")
    return 0 if healthy else 1


async def _alive(settings: Settings) -> list[Finding]:
    try:
        async with _gateway(settings) as client:
            answer = await client.get("/healthz")
    except (httpx2.HTTPError, OSError):
        return [_away()]
    return [Finding("gateway", answer.status_code == httpx2.codes.OK, f"answered {answer.status_code}")]


async def _examine(settings: Settings) -> list[Finding]:
    return [
        *_variables(),
        *await _database(settings),
        *await _readiness(settings),
        *[await _address(settings, address) for address in settings.addresses],
    ]


def _variables() -> Iterator[Finding]:
    unknown = unknown_variables()
    for line in unknown:
        yield Finding("settings", ok=False, detail=line, warning=True)
    if not unknown:
        yield Finding("settings", ok=True, detail="every GRAPHKEEP_ variable is a setting")


async def _database(settings: Settings) -> list[Finding]:
    used = settings if settings.store.neo4j_uri is not None else running(settings)
    if used is None:
        return [
            Finding(
                "database",
                ok=False,
                detail=f"no gateway runs from {settings.run.folder}, and NEO4J_URI is not set",
                remedy="Start `graphkeep dev` or `graphkeep serve`: it starts the database too.",
            )
        ]
    store = used.store
    uri = store.neo4j_uri or ""
    password = store.neo4j_password.get_secret_value() if store.neo4j_password else ""
    try:
        database = await Database.connect(uri, store.neo4j_user, password, store.neo4j_database, pool_size=2)
    except StartError as error:
        return [Finding("database", ok=False, detail=error.message)]
    try:
        await database.verify()
        return [
            Finding("database", ok=True, detail="answers, and lets us in"),
            await _schema(database),
            await _integrity(database),
            await _vectors(database),
        ]
    except (StartError, CallError) as error:
        remedy = ""
        if urlsplit(uri).scheme.startswith("neo4j"):
            remedy = "neo4j:// asks a cluster for its members; a single server wants bolt:// in NEO4J_URI."
        return [Finding("database", ok=False, detail=str(error), remedy=remedy)]
    finally:
        await database.close()


async def _schema(database: Database) -> Finding:
    found = await status(database)
    if found.version is None:
        return Finding("schema", ok=False, detail="not made yet", remedy="The gateway makes it when it starts.")
    if found.version != VERSION:
        return Finding(
            "schema",
            ok=False,
            detail=f"version {found.version}, this release has {VERSION}",
            remedy="Start the gateway of the newer release; an older schema is migrated by it.",
        )
    if found.waiting:
        return Finding("schema", ok=False, detail=f"indexes are being built: {', '.join(found.waiting)}", warning=True)
    return Finding("schema", ok=True, detail=f"version {found.version}, every index online")


async def _integrity(database: Database) -> Finding:
    broken = await integrity.check(database)
    if broken:
        remedy = "Stop writing, and restore a backup from before; something else than graphkeep wrote here."
        return Finding("integrity", ok=False, detail="; ".join(broken), remedy=remedy)
    return Finding("integrity", ok=True, detail="no record without its partition, no relation between two")


async def _vectors(database: Database) -> Finding:
    decided = await decision(database.control)
    if decided is None:
        return Finding("vectors", ok=True, detail="no model was decided on yet")
    entities, due = await without_vector(database, decided.key)
    if due:
        every = counted(entities, "entity", "entities")
        detail = f"without one by {decided.model}, and found by words alone: {due:,} of {every}"
        return Finding("vectors", ok=False, detail=detail, remedy="`graphkeep reembed` makes them.", warning=True)
    return Finding("vectors", ok=True, detail=f"every entity has one by {decided.model}")


async def _readiness(settings: Settings) -> list[Finding]:
    """What the running gateway says of itself: the model above all."""
    try:
        async with _gateway(settings) as client:
            answer = await client.get("/readyz")
        checks: dict[str, Any] = answer.json()["checks"]
    except (httpx2.HTTPError, OSError, ValueError, KeyError):
        return [_away()]
    return [
        Finding(f"gateway: {name}", bool(found["ok"]), str(found["reason"]), warning=name not in {"database", "schema"})
        for name, found in checks.items()
    ]


async def _address(settings: Settings, address: str) -> Finding:
    """Whether the address serves its own public documents, as a connector would fetch them (RFC 9728 §3)."""
    name = f"address {address}"
    url = f"{address}/.well-known/oauth-protected-resource/mcp"
    try:
        async with httpx2.AsyncClient(verify=_trust(settings), timeout=_SECONDS, trust_env=False) as client:
            answer = await client.get(url)
        published = answer.json()["resource"] if answer.status_code == httpx2.codes.OK else None
    except (httpx2.HTTPError, OSError, ValueError, KeyError) as error:
        return Finding(
            name,
            ok=False,
            detail=f"not reachable from here ({type(error).__name__})",
            remedy="Check DNS, the proxy and its certificate, and GRAPHKEEP_PUBLIC_URLS.",
        )
    if published != f"{address}/mcp":
        return Finding(
            name,
            ok=False,
            detail=f"answers with status {answer.status_code}, and not as this gateway",
            remedy="Something else listens there, or the proxy changes the Host header.",
        )
    return Finding(name, ok=True, detail="serves its public documents")


def _gateway(settings: Settings) -> httpx2.AsyncClient:
    return httpx2.AsyncClient(
        transport=httpx2.AsyncHTTPTransport(uds=str(settings.run.socket_path)),
        base_url="http://localhost",
        timeout=_SECONDS,
        trust_env=False,
    )


def _trust(settings: Settings) -> ssl.SSLContext:
    context = ssl.create_default_context()
    own = settings.run.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
    if own.is_file():
        context.load_verify_locations(cafile=str(own))
    return context


def _away() -> Finding:
    return Finding(
        "gateway",
        ok=False,
        detail="does not answer at its socket",
        remedy="Start it: `graphkeep dev` or `graphkeep serve`, with the same GRAPHKEEP_HOME.",
    )
