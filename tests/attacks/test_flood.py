"""A flood of registrations: nothing of it is kept, and who is connected already goes on."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from tests.attacks.conftest import House
from tests.oauth.conftest import CALLBACK

LANES = 8
SECONDS = 60.0


@dataclass
class Calls:
    """What a connected client lived through while it called one time after the other."""

    seconds: list[float] = field(default_factory=list)
    refused: int = 0

    def shown(self) -> str:
        ordered = sorted(self.seconds)
        middle, late = ordered[len(ordered) // 2], ordered[int(len(ordered) * 0.95)]
        return f"{len(ordered)} calls, p50 {middle * 1000:.1f} ms, p95 {late * 1000:.1f} ms, {self.refused} asked again"


async def calling(house: House, token: str, until: Callable[[], bool]) -> Calls:
    calls = Calls()
    async with house.gateway.client(token, timeout=120) as client:
        while not until():
            begun = time.perf_counter()
            answer = await house.gateway.ask(client, "tools/list")
            if answer.status_code == 503:
                calls.refused += 1
                await asyncio.sleep(0.2)
                continue
            assert answer.status_code == 200, answer.text
            calls.seconds.append(time.perf_counter() - begun)
    return calls


async def register(address: str, number: int) -> None:
    """``number`` registrations over one connection, as cheaply as a flooder would send them."""
    host, _, port = address.partition("://")[2].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        each = 0
        while each < number:
            body = json.dumps({"client_name": f"Flood {each}", "redirect_uris": [CALLBACK]}).encode()
            head = f"POST /register HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Type: application/json\r\n"
            writer.write(f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            answer = await reader.readuntil(b"\r\n\r\n")
            length = next(line for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(int(length.partition(b":")[2]))
            assert answer.startswith((b"HTTP/1.1 201", b"HTTP/1.1 503")), answer[:100]
            each += answer.startswith(b"HTTP/1.1 201")
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()


async def flood(house: House, number: int) -> tuple[float, Calls, Calls]:
    """How long the flood took, and the calls of somebody connected without it and beside it."""
    _, tokens = await house.connected()
    assert await house.works(tokens["access_token"])
    quiet_until = time.monotonic() + 2
    quiet = await calling(house, tokens["access_token"], lambda: time.monotonic() > quiet_until)
    before = await house.records()
    lanes = [asyncio.create_task(register(house.addresses[0], number // LANES)) for _ in range(LANES)]
    begun = time.monotonic()
    noisy = await calling(house, tokens["access_token"], lambda: all(lane.done() for lane in lanes))
    await asyncio.gather(*lanes)
    elapsed = time.monotonic() - begun
    after = await house.records()
    # Less may be there, since what has expired is swept meanwhile.
    assert {label: number for label, number in after.items() if number > before.get(label, 0)} == {}
    return elapsed, quiet, noisy


def told(number: int, elapsed: float, quiet: Calls, noisy: Calls) -> str:
    return f"{number} registrations in {elapsed:.1f} s; without: {quiet.shown()}; beside it: {noisy.shown()}"


async def test_a_flood_of_registrations_stores_nothing_and_disturbs_nobody_connected(
    house: House, show: Callable[[str], None]
) -> None:
    elapsed, quiet, noisy = await flood(house, 504)
    assert noisy.seconds
    show(told(504, elapsed, quiet, noisy))


@pytest.mark.soak
async def test_ten_thousand_registrations_in_a_minute_store_nothing_and_disturb_nobody_connected(
    house: House, show: Callable[[str], None]
) -> None:
    elapsed, quiet, noisy = await flood(house, 10_000)
    show(told(10_000, elapsed, quiet, noisy))
    assert elapsed <= SECONDS
    assert len(noisy.seconds) > elapsed  # more than one call a second got its answer
