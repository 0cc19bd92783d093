"""A person with a browser, whom the programs send to the gateway's consent page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx2

from app.cli.connector.browser import Browser
from tests.conformance.programs import SECONDS, Ended

__all__ = ["Person"]

ALLOW = ("answer", "allow")


@dataclass
class Person:
    """Allows whatever is asked. ``issuer`` is the address whose questions they answer."""

    browser: Browser
    client: httpx2.AsyncClient
    issuer: str
    asked: list[str] = field(default_factory=list)

    async def visit(self, url: str) -> None:
        """Open an authorization request, allow it, and go back to the program that waits for it."""
        self.asked.append(url)
        page = await self.browser.get(url)
        form = page.form(*ALLOW)
        if form is not None:
            page = await self.browser.submit(page, form, ALLOW)
        assert page.elsewhere, page.text
        await self.client.get(page.elsewhere)

    async def attend(self, process: asyncio.subprocess.Process) -> Ended:
        """Follow each authorization request that the program prints, until it ends."""
        said: list[str] = ["", ""]
        streams: Sequence[asyncio.StreamReader | None] = (process.stdout, process.stderr)

        async def watch(number: int, stream: asyncio.StreamReader) -> None:
            while line := (await stream.readline()).decode():
                said[number] += line
                found = re.search(rf"{re.escape(self.issuer)}/authorize\?\S+", line)
                if found:
                    await self.visit(found[0])

        async with asyncio.timeout(SECONDS):
            await asyncio.gather(*(watch(number, stream) for number, stream in enumerate(streams) if stream))
            return Ended(await process.wait(), *said)
