"""The ingest service on a real database, in a home of its own."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from app.access.layers import scope_for
from app.context import SCOPES, Deadline
from app.contract import Call
from app.fetching.addresses import Resolve
from app.ingest.intake import Incoming
from app.ingest.meta import Meta
from app.ingest.reach import sender
from app.ingest.schemas import IngestAnswer, IngestInput, TranscriptAnswer, TranscriptInput
from app.ingest.service import IngestService
from app.settings import EmbeddingSettings, IngestSettings, RunSettings, Settings
from app.store import session
from app.store.database import Database
from tests.identity import a_grant, a_principal


async def _silent(done: float, total: float | None = None, message: str | None = None) -> None:
    return None


def talk(*texts: str, session: str = "s-1") -> bytes:
    return b"".join(
        json.dumps(
            {
                "type": "user",
                "sessionId": session,
                "cwd": "/home/ada",
                "timestamp": f"2026-01-01T00:00:{number:02d}Z",
                "message": {"role": "user", "content": text},
            }
        ).encode()
        + b"\n"
        for number, text in enumerate(texts)
    )


def service_at(database: Database, home: Path, *, resolve: Resolve | None = None, **ingest: Any) -> IngestService:
    settings = Settings(
        run=RunSettings(home=home),
        embedding=EmbeddingSettings(embedding="none"),
        ingest=IngestSettings(**ingest),
    )
    return IngestService(database, settings, resolve=resolve)


class Agent:
    """One client of a tenant, with what it was granted."""

    def __init__(
        self,
        service: IngestService,
        tenant: str,
        layers: Sequence[str] = ("",),
        *,
        operator: bool = False,
        subject: str = "us-test",
        scopes: Iterable[str] = SCOPES,
    ) -> None:
        self.service = service
        self.tenant = tenant
        grant = a_grant(scopes=scopes, read=layers, write=layers, write_layer=layers[0])
        self.principal = replace(
            a_principal(grant, operator=operator, tenant_layers=layers), data=tenant, subject=subject
        )

    def call(self, tool: str, *, writes: bool, layers: list[str] | None = None, digest: str = "d") -> Call:
        scope = scope_for(self.principal, layers, writes=writes)
        return Call(tool, "test", self.principal, scope, Deadline.after(60), _silent, digest)

    async def ask(self, action: str, *, digest: str = "d", **more: Any) -> dict[str, Any]:
        arguments = IngestInput.model_validate({"action": action, **more})
        call = self.call("graph_ingest", writes=True, layers=arguments.layers, digest=digest)
        answer = dict(await self.service.ingest(call, arguments))
        IngestAnswer.model_validate(answer)
        return answer

    async def queue(self, name: str, content: str, **more: Any) -> dict[str, Any]:
        return await self.ask("queue", file_name=name, content=content, **more)

    async def send(self, name: str, content: bytes, *, layer: str | None = None, **meta: Any) -> dict[str, Any]:
        """A file that came by HTTP, from behind its route."""
        scope = scope_for(self.principal, None if layer is None else [layer], writes=True)
        self.service.files.prepare(self.tenant)
        staged = self.service.files.stage(self.tenant)
        await staged.write(content)
        incoming = Incoming(name, staged, Meta.model_validate(meta))
        return (await self.service.intake.accept(scope, [incoming], sender=sender(self.principal)))[0]

    async def read(self, **given: Any) -> dict[str, Any]:
        arguments = TranscriptInput.model_validate(given)
        call = self.call("graph_read_transcript", writes=False, layers=arguments.layers)
        answer = dict(await self.service.read_transcript(call, arguments))
        TranscriptAnswer.model_validate(answer)
        return answer

    async def claimed(self, **more: Any) -> dict[str, Any]:
        """The one item that a claim gives."""
        (item,) = (await self.ask("claim", **more))["items"]
        found: dict[str, Any] = item
        return found

    def files(self) -> list[str]:
        """Everything that lies in the tenant's folder."""
        root = self.service.files.parts(self.tenant).parent
        return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


@pytest.fixture(autouse=True, scope="package")
def _patience() -> Iterator[None]:
    """On a busy machine a cold database plans a statement for longer than a call may take."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "CONTROL_SECONDS", 120.0)
        yield


@pytest_asyncio.fixture
async def service(database: Database, tmp_path: Path) -> AsyncIterator[IngestService]:
    yield service_at(database, tmp_path)


@pytest.fixture
def agent(service: IngestService, tenant: str) -> Agent:
    return Agent(service, tenant)
