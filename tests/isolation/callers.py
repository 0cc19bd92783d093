"""Callers of every kind, and what they get: through the real registry, dispatcher and scope, as the gateway does it."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson

from app.access.layers import scope_for
from app.context import Deadline, RequestContext
from app.ingest.intake import Incoming
from app.ingest.reach import sender
from app.ingest.service import IngestService
from app.protocol.dispatch import Dispatcher
from app.protocol.envelope import Envelope
from app.protocol.progress import silent
from app.protocol.registry import Registry
from tests.identity import a_grant, a_principal

LAYERS = ("", "a", "b", "c")
"""Layers that each tenant of the harness has; all callers of a tenant are told of all of them."""

UPLOAD = "PUT /ingest"
"""Not a tool: a file that comes by HTTP."""

_PAGES = 6


@dataclass(frozen=True)
class Caller:
    """One client of one tenant. The first of ``writes`` is where a write goes that names no layer."""

    name: str
    tenant: str
    reads: tuple[str, ...]
    writes: tuple[str, ...] = ()

    def of(self, tenant: str) -> Caller:
        """The same person with the same grant in another tenant."""
        return replace(self, tenant=tenant)

    def context(self, tool: str) -> RequestContext:
        """The verified request of this caller."""
        grant = a_grant(read=self.reads, write=self.writes, write_layer=self.writes[0] if self.writes else None)
        principal = replace(
            a_principal(grant, tenant_layers=LAYERS),
            subject=f"us-{self.name}",
            tenant=f"tn-{self.tenant}",
            data=self.tenant,
        )
        return RequestContext(
            "isolation", "http://localhost", principal=principal, tool=tool, deadline=Deadline.after(90)
        )


@dataclass(frozen=True)
class Reply:
    """What a caller got: the exact text, and the same without what the registry marks volatile."""

    tool: str
    arguments: Mapping[str, Any]
    failed: bool
    text: str
    steady: str

    @property
    def payload(self) -> dict[str, Any]:
        """The answer as data."""
        found: dict[str, Any] = orjson.loads(self.text)
        return found

    @property
    def shown(self) -> str:
        """All that the caller can read out of the answer, the insides of its cursor too."""
        cursor = self.payload.get("next_cursor")
        inside = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4)).decode() if cursor else ""
        return f"{self.text}\n{inside}"


@dataclass(frozen=True)
class Step:
    """One write."""

    caller: Caller
    tool: str
    arguments: Mapping[str, Any]


HELD: Final = "(as answered last)"
"""In the place of a lease: the one that the caller was handed last."""


PUBLISHED: Final = "https://published.example"
"""In the place of the host whose documents are fetched: only the gate knows its port."""


class Leases:
    """What callers were handed: only the answers know it."""

    def __init__(self) -> None:
        self._held: dict[Any, str] = {}

    def given(self, who: Any, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """The arguments with the lease that ``who`` holds in the place of ``HELD``."""
        return {**arguments, "lease": self._held.get(who, HELD)} if arguments.get("lease") == HELD else arguments

    def keep(self, who: Any, answer: Mapping[str, Any]) -> None:
        """Remember what ``who`` was handed."""
        if answer.get("lease"):
            self._held[who] = answer["lease"]


class Gate:
    """The dispatcher of a gateway without its listeners."""

    def __init__(self, registry: Registry, dispatcher: Dispatcher, ingest: IngestService, published: str) -> None:
        self.registry = registry
        self.ingest = ingest
        self._published = published
        self._dispatcher = dispatcher
        self._leases = Leases()

    async def upload(self, caller: Caller, name: str, content: str) -> Reply:
        """A file that came by HTTP, from behind its route."""
        principal = caller.context(UPLOAD).principal
        assert principal is not None
        scope = scope_for(principal, None, writes=True)
        self.ingest.files.prepare(scope.tenant)
        staged = self.ingest.files.stage(scope.tenant)
        await staged.write(content.encode())
        own = sender(principal)
        text = orjson.dumps((await self.ingest.intake.accept(scope, [Incoming(name, staged)], sender=own))[0]).decode()
        return Reply(UPLOAD, {"name": name}, False, text, text)

    async def ask(self, caller: Caller, tool: str, arguments: Mapping[str, Any]) -> Reply:
        """One call. Our own faults are no answer: they fail the test."""
        if tool == UPLOAD:
            return await self.upload(caller, **arguments)
        given = self._leases.given(caller, arguments)
        if "url" in given:
            given = {**given, "url": given["url"].replace(PUBLISHED, self._published)}
        envelope = Envelope("tools/call", id=1, tool=tool, arguments=given)
        answer = await self._dispatcher.call(envelope, caller.context(tool), silent)
        payload = orjson.loads(answer.text)
        assert payload.get("reason") not in {"internal_error", "deadline_exceeded", "database_unavailable"}, payload
        self._leases.keep(caller, payload)
        declared = self.registry.get(tool)
        volatile = declared.volatile if declared else frozenset()
        steady = orjson.dumps(without(payload, volatile)).decode()
        return Reply(tool, arguments, answer.failed, answer.text, steady)

    async def pages(self, caller: Caller, tool: str, arguments: Mapping[str, Any]) -> list[Reply]:
        """The call and, where its answer has a cursor, the pages after it."""
        replies = [await self.ask(caller, tool, arguments)]
        while len(replies) < _PAGES and (cursor := replies[-1].payload.get("next_cursor")):
            replies.append(await self.ask(caller, tool, {**arguments, "cursor": cursor}))
        return replies


def without(value: Any, volatile: frozenset[str]) -> Any:
    """The same with each volatile value replaced by a mark, so that its presence still counts."""
    if isinstance(value, dict):
        return {
            key: "~" if key in volatile and inner is not None else without(inner, volatile)
            for key, inner in value.items()
        }
    return [without(inner, volatile) for inner in value] if isinstance(value, list) else value


def steady(replies: list[Reply]) -> list[str]:
    """The bytes that two equal worlds must agree on."""
    return [reply.steady for reply in replies]
