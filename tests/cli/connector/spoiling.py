"""A proxy before a real gateway that spoils one thing, as proxies, firewalls and half-done servers do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx2
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from tests.oauth.conftest import serving
from tests.ports import NO_TLS

OWN = (b"connection", b"content-length")
HOP_BY_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length", "content-encoding", "date", "server"}


@dataclass
class Answer:
    """What the gateway answered, to be changed."""

    status: int
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str, change: Callable[[str], str | None]) -> None:
        """Change a header; None takes it away."""
        changed = [(found, change(value) if found == name else value) for found, value in self.headers]
        self.headers = [(found, value) for found, value in changed if value is not None]

    def document(self, change: Callable[[dict[str, Any]], Any]) -> None:
        """Change the JSON object of the body."""
        values = json.loads(self.body)
        change(values)
        self.body = json.dumps(values).encode()


Spoil = Callable[[Request, Answer], None]


@dataclass
class Proxy:
    """Passes everything on to ``upstream`` under the Host that it was asked for."""

    upstream: str
    spoil: Spoil | None = None
    token: str = ""
    """A bearer token that is added to what comes without one."""
    rename: tuple[str, str] | None = None
    """A Host, and the one that takes its place."""
    patient: bool = False
    """Whether it asks again where a machine is too busy to serve, for a client that takes this for the answer."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        headers = [(name, value) for name, value in map(self._changed, request.headers.raw) if name not in OWN]
        if self.token and "authorization" not in request.headers:
            headers.append((b"authorization", f"Bearer {self.token}".encode()))
        async with httpx2.AsyncClient(trust_env=False, timeout=60, verify=NO_TLS) as client:
            url = f"{self.upstream}{scope['raw_path'].decode()}"
            if scope["query_string"]:
                url += f"?{scope['query_string'].decode()}"
            body = await request.body()
            answered = await client.request(request.method, url, headers=headers, content=body)
            while self.patient and answered.status_code == 503 and "retry-after" in answered.headers:
                await asyncio.sleep(float(answered.headers["retry-after"]))
                answered = await client.request(request.method, url, headers=headers, content=body)
        kept = [(name, value) for name, value in answered.headers.multi_items() if name not in HOP_BY_HOP]
        answer = Answer(answered.status_code, kept, answered.content)
        if self.spoil is not None:
            self.spoil(request, answer)
        response = Response(answer.body, answer.status)
        response.raw_headers += [(name.encode(), value.encode()) for name, value in answer.headers]
        await response(scope, receive, send)

    def _changed(self, header: tuple[bytes, bytes]) -> tuple[bytes, bytes]:
        name, value = header
        if self.rename is not None and name == b"host" and value == self.rename[0].encode():
            return name, self.rename[1].encode()
        return header


@asynccontextmanager
async def proxied(proxy: Proxy) -> AsyncIterator[int]:
    """Serve the proxy at the port that this yields."""
    async with serving(proxy) as port:
        yield port
