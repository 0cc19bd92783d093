"""Does the gateway reach itself at its public addresses? Found out after the start, and only ever a warning."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final

import httpx2
import structlog

from app.edge.health import Finding
from app.edge.lifespan import beside

__all__ = ["SelfTest"]

log = structlog.get_logger("graphkeep.edge")

DOCUMENT: Final = "/.well-known/oauth-protected-resource/mcp"
ATTEMPTS: Final = (0.5, 2.0, 10.0, 30.0)
"""Seconds before each attempt: the proxy in front may start after us."""


class SelfTest:
    """Fetches a public document at each address. ``authorities``: certificate files to trust besides the system's."""

    def __init__(self, addresses: Iterable[str], *, authorities: Iterable[Path] = ()) -> None:
        self._addresses = tuple(addresses)
        self._authorities = tuple(authorities)
        self._found = dict.fromkeys(self._addresses, "not tried yet")

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[SelfTest]:
        """Try in the background for as long as the block lasts."""
        async with beside(self._run(), "self-test"):
            yield self

    async def finding(self) -> Finding:
        """What is known now, for ``/readyz``."""
        good = all(found == "ok" for found in self._found.values())
        return Finding(good, "; ".join(f"{address}: {found}" for address, found in self._found.items()), required=False)

    async def _run(self) -> None:
        for pause in ATTEMPTS:
            await asyncio.sleep(pause)
            for address in [one for one, found in self._found.items() if found != "ok"]:
                self._found[address] = await self._fetch(address)
            if all(found == "ok" for found in self._found.values()):
                return
        for address, found in self._found.items():
            if found != "ok":
                log.warning("the gateway does not reach itself", address=address, found=found)

    async def _fetch(self, address: str) -> str:
        try:
            async with httpx2.AsyncClient(verify=await asyncio.to_thread(self._trust), timeout=5) as client:
                answer = await client.get(f"{address}{DOCUMENT}")
            if answer.status_code != 200:
                return f"answers {answer.status_code}"
            published = answer.json().get("resource")
            return "ok" if published == f"{address}/mcp" else "another server answers there"
        except httpx2.ConnectError as error:
            return "the certificate is not trusted here" if "certificate" in str(error).lower() else "cannot be reached"
        except (httpx2.HTTPError, ValueError, AttributeError) as error:
            return f"fails ({type(error).__name__})"

    def _trust(self) -> ssl.SSLContext:
        context = ssl.create_default_context()
        for file in self._authorities:
            if file.exists():
                context.load_verify_locations(file)
        return context
