"""The pipeline of a request, and the life of the parts that it stands on."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.authenticate import Authenticate
from app.access.authorize import Authorize
from app.access.erasing import Erasing
from app.access.service import Access, open_access
from app.console.routes import routes as console_routes
from app.console.service import Console
from app.contract import Tool
from app.edge.context import Stage, through
from app.edge.gate import Gate
from app.edge.health import Check, Finding, Health
from app.edge.lifespan import Application, beside
from app.edge.lobby import Lobby
from app.edge.methods import PostOnly
from app.edge.routes import Routes, pages
from app.edge.selftest import SelfTest
from app.edge.stages import Instruments, edge
from app.embedding.provider import Embedder
from app.errors import CallError, InternalError
from app.ingest.http import PREFIX, UploadTool, raised
from app.ingest.http import routes as upload_routes
from app.ingest.service import IngestService
from app.ingest.tools import TOOLS as INGEST
from app.limits.downloads import LimitDownloads
from app.limits.limit import Limit
from app.limits.limits import Limits
from app.limits.uploads import LimitUploads
from app.memory.moving.exchange import keep_leftovers_erased
from app.memory.moving.http import EXPORTS, ExportFiles
from app.memory.offered.completing import complete
from app.memory.offered.resources import RESOURCES
from app.memory.prompts.loading import prompts, worded
from app.memory.runs.http import PENDING, PendingRoute, Under
from app.memory.service import MemoryService
from app.memory.tools import TOOLS as MEMORY
from app.oauth.jwks import KeyRing
from app.oauth.routes import routes
from app.oauth.service import AuthorizationServer
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import EnvelopeStage, envelope_of
from app.protocol.offering import READING, Offering
from app.protocol.registry import Registry
from app.protocol.result import refusal
from app.protocol.server import HttpProtocol
from app.settings import Settings
from app.startup import Opening
from app.store.control.tenants import Tenant
from app.store.database import Database
from app.store.planning import plan_ahead
from app.store.sweeping import keep_swept

__all__ = ["FIRST", "ROOMS", "Services", "create_app", "opened"]

ROOMS: Final = frozenset({"graph", "memory"})
"""Whose statements a tool's call runs."""
FIRST: Final = frozenset(
    {
        "graph.find_by_text",
        "graph.find_names",
        "graph.read_images",
        "memory.count_entities",
        "memory.count_relations",
        "memory.divide_ids",
        "memory.expand_seeds",
        "memory.list_contradicting",
        "memory.list_degrees",
        "memory.list_entities",
        "memory.lock_ends",
        "memory.read_details",
        "memory.read_ends",
        "memory.read_hubs",
        "memory.read_neighbourhood",
        "memory.read_picked",
        "memory.read_recent_in_one_layer",
        "memory.read_stats_of_one_layer",
        "memory.write_relations",
        "memory.write_searched",
    }
)
"""Statements that a new client's first calls run: to remember, to look around, to search, to begin a session."""


@dataclass(frozen=True)
class Services:
    """The opened parts that the stages stand on."""

    instruments: Instruments
    opening: Opening
    planned: Collection[asyncio.Event]
    """Set once what a new client's first calls run is planned, or is not going to be: vectors apart from the rest."""
    embedder: Embedder
    access: Access
    authorization: AuthorizationServer
    console: Console
    registry: Registry
    dispatcher: Dispatcher
    limits: Limits
    memory: MemoryService
    offering: Offering
    protocol: HttpProtocol
    self_test: SelfTest
    ingest: IngestService


def create_app(settings: Settings | None = None) -> Application[Services]:
    """The whole gateway. A request goes through the stages from top to bottom, and nothing goes back up."""
    chosen = settings or Settings()

    def pipeline(services: Services) -> ASGIApp:
        registry, access, metrics = services.registry, services.access, services.instruments.metrics

        def staged(name: str) -> Tool | None:
            return registry.get(name) or services.offering.stage(name)

        mcp = through(
            PostOnly,
            partial(Authenticate, verifier=access.verifier, scopes=_first_scopes(registry)),
            EnvelopeStage,
            partial(Authorize, snapshot=access.snapshot, tool_named=staged, refuse=_refused),
            partial(Limit, limits=services.limits, tool_of=staged, refuse=_refused, metrics=metrics),
            to=services.protocol,
        )

        def guarded(at: str, under: Stage, limit: Stage, to: ASGIApp) -> ASGIApp:
            return through(
                partial(Authenticate, verifier=access.verifier, scopes=_first_scopes(registry), at=at),
                under,
                partial(Authorize, snapshot=access.snapshot, tool_named=staged, refuse=raised),
                limit,
                to=to,
            )

        upload = partial(UploadTool, tool=INGEST[0])
        reading = partial(Under, name=READING.name)
        sent = partial(LimitUploads, limits=services.limits, tool=INGEST[0], metrics=metrics)
        read = partial(Limit, limits=services.limits, tool_of=staged, refuse=raised, metrics=metrics)
        ingest = guarded(PREFIX, upload, sent, pages(upload_routes(services.ingest)))
        waiting = guarded(PENDING, reading, read, PendingRoute(services.memory))
        fetched = partial(LimitDownloads, limits=services.limits, tool=READING, metrics=metrics)
        exports = guarded(EXPORTS, reading, fetched, ExportFiles(services.memory))
        health = Health(_checks(services), stopping=lambda: services.instruments.drain.stopping)
        oauth = Gate(
            pages([*routes(services.authorization), *console_routes(services.console)]),
            is_open=services.opening.migrated.is_set,
            always=("/.well-known/",),
        )
        return through(
            *edge(chosen, services.instruments),
            to=Routes(
                {"/mcp": mcp, PENDING: waiting, "/healthz": health, "/readyz": health},
                below={PREFIX: ingest, EXPORTS: exports},
                otherwise=Lobby(oauth, room=max(1, chosen.limits.open_requests // 4)),
            ),
        )

    return Application(lambda: opened(chosen), pipeline)


@asynccontextmanager
async def opened(settings: Settings) -> AsyncIterator[Services]:
    """Open the parts in order, and close them in the opposite one.

    Raises:
        StartError: a part cannot be opened for a reason that waiting does not mend.
    """
    store = settings.store
    password = store.neo4j_password.get_secret_value() if store.neo4j_password else ""
    async with AsyncExitStack() as stack:
        database = await Database.connect(
            store.neo4j_uri or "", store.neo4j_user, password, store.neo4j_database, pool_size=store.pool_size
        )
        stack.push_async_callback(database.close)
        opening = await stack.enter_async_context(Opening(database).running())
        rooms = ROOMS if store.plan_ahead else frozenset()
        planned, compared = asyncio.Event(), asyncio.Event()
        await stack.enter_async_context(beside(_plan(opening, database, rooms, planned), "plans"))
        await stack.enter_async_context(beside(keep_swept(database.control), "sweeping"))
        await stack.enter_async_context(
            beside(_after(opening, partial(keep_leftovers_erased, database, settings)), "moving")
        )
        embedder = Embedder(settings.embedding, settings.run.folder)
        stack.push_async_callback(embedder.close)
        await stack.enter_async_context(beside(_start_model(embedder, opening, database, rooms, compared), "model"))
        access = await stack.enter_async_context(open_access(settings, database, migrated=opening.migrated))
        erasing = Erasing(database, settings, access.vault)
        await stack.enter_async_context(beside(_after(opening, erasing.keep_going), "erasing"))
        registry = Registry((*MEMORY, *INGEST))
        memory = MemoryService(database, embedder, settings)
        stack.push_async_callback(memory.close)
        ingest = IngestService(database, settings)
        await stack.enter_async_context(beside(ingest.worker.run(opening.migrated), "ingest"))
        dispatcher = Dispatcher(
            registry, {"memory": memory, "ingest": ingest}, result_characters=settings.limits.result_characters
        )
        limits = Limits(settings.limits, pool_size=store.pool_size, uploads=settings.ingest.concurrent_uploads)
        stack.push_async_callback(limits.close)
        offering = Offering(
            prompts(),
            RESOURCES,
            {"memory": memory},
            complete,
            result_characters=settings.limits.result_characters,
            worded=lambda prompt, principal: worded(prompt, memory.behaviour(principal)),
        )
        protocol = HttpProtocol(registry, dispatcher, offering)
        await stack.enter_async_context(protocol.running())
        instruments = Instruments()
        await stack.enter_async_context(instruments.measuring())
        authority = settings.run.folder / "caddy" / "pki" / "authorities" / "local" / "root.crt"
        self_test = await stack.enter_async_context(SelfTest(settings.addresses, authorities=[authority]).running())

        async def ring() -> KeyRing:
            return access.snapshot.view.ring

        authorization = AuthorizationServer(database, settings, access.vault, ring=ring)

        async def held(tenant: Tenant) -> tuple[int, int]:
            return await memory.held(tenant.data, tenant.all_layers())

        yield Services(
            instruments,
            opening,
            (planned, compared),
            embedder,
            access,
            authorization,
            Console(database, authorization, access.accounts, access.vault, held=held),
            registry,
            dispatcher,
            limits,
            memory,
            offering,
            protocol,
            self_test,
            ingest,
        )


async def _plan(opening: Opening, database: Database, rooms: Collection[str], planned: asyncio.Event) -> None:
    await opening.migrated.wait()
    try:
        if rooms:
            await plan_ahead(database, FIRST)
    finally:
        planned.set()
    await plan_ahead(database, rooms)


async def _after(opening: Opening, work: Callable[[], Awaitable[None]]) -> None:
    await opening.migrated.wait()
    await work()


async def _start_model(
    embedder: Embedder, opening: Opening, database: Database, rooms: Collection[str], compared: asyncio.Event
) -> None:
    """A first model may have to be fetched: everything else serves meanwhile."""
    await opening.migrated.wait()
    try:
        await embedder.start(database)
        if embedder.identity is not None:
            await plan_ahead(database, rooms, dimension=embedder.identity.dimension)
    finally:
        compared.set()


def _first_scopes(registry: Registry) -> frozenset[str]:
    """What a first connection should ask for: whatever the tools for everyone need."""
    return frozenset(tool.scope for tool in registry if not tool.operators_only)


def _refused(scope: Scope, error: CallError, tool: Tool | None = None) -> ASGIApp:
    """A call refused before it reached the protocol, in the form of the client's era."""
    envelope = envelope_of(scope)
    if envelope is None:
        raise InternalError("a call without an envelope was refused") from error
    answer = refusal(envelope, error, toolset=tool.toolset if tool is not None else None)

    async def refused(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": answer.status, "headers": answer.headers})
        await send({"type": "http.response.body", "body": answer.body})

    return refused


def _checks(services: Services) -> dict[str, Check]:
    """What ``/readyz`` asks. Without a model all but vectors works, so that is only said."""

    async def model() -> Finding:
        identity = services.embedder.identity
        return Finding(identity is not None, services.embedder.state, required=False)

    return {
        "database": services.opening.database,
        "schema": services.opening.schema,
        "model": model,
        "addresses": services.self_test.finding,
    }
