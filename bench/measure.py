"""The measurements themselves. Gateway and bare driver take turns, so that whatever else the machine does hits both."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, Final

import orjson

from app.errors import CallError
from bench.cases import CASES, Case, marker
from bench.figures import Figures
from bench.generator import Generator
from bench.job import Job, Outcome, Way
from bench.script import Script, renamed, renewed
from bench.stage import Gateway, Stage, gateway, said
from bench.wire import tool_call

__all__ = ["NEIGHBOURLY", "Size", "all_cases", "handshakes", "noisy_neighbour"]

VARIANTS: Final = 32
"""Different calls of a reading case."""
NEIGHBOURLY: Final = next(case for case in CASES if case.name == "query, 2 hops")
"""What both tenants call while one is noisy."""


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    tenants: int
    entities: int
    relations: int
    clients: tuple[int, int]
    calls: int
    """Of one case, by one way, in one round."""
    warm: int
    rounds: int
    handshakes: int
    noise_seconds: float
    turn_seconds: float
    """After so many a turn of one case by one way makes no further calls: slow cases have fewer."""

    @classmethod
    def full(cls) -> Size:
        """What is published."""
        shape, clients = (100, 20_000, 60_000), (1, 8)
        return cls(*shape, clients, calls=200, warm=200, rounds=3, handshakes=10_000, noise_seconds=10, turn_seconds=4)

    @classmethod
    def small(cls) -> Size:
        """Whether it still runs."""
        shape, clients = (3, 200, 600), (1, 2)
        return cls(*shape, clients, calls=10, warm=5, rounds=1, handshakes=50, noise_seconds=1, turn_seconds=4)


@dataclass
class _Loads:
    """The load processes, one for each way."""

    http: Generator
    driver: Generator
    sdk: Generator
    other: Generator
    """A second one over HTTP."""


@asynccontextmanager
async def _loads() -> AsyncIterator[_Loads]:
    started = [await Generator.start() for _ in range(4)]
    try:
        yield _Loads(*started)
    finally:
        await asyncio.gather(*(one.stop() for one in started))


@dataclass
class _Series:
    """Outcomes of several rounds as one."""

    seconds: list[float]
    elapsed: float = 0.0
    processor: float = 0.0

    def add(self, outcome: Outcome, processor: float = 0.0) -> None:
        if outcome.refused:
            raise RuntimeError(f"{outcome.refused} calls failed, for example: {outcome.why}")
        self.seconds += outcome.seconds
        self.elapsed += outcome.elapsed
        self.processor += processor

    def figures(self) -> dict[str, float]:
        figures = Figures.of(self.seconds, self.elapsed).as_dict()
        return figures | {"cpu_ms": round(self.processor * 1000 / len(self.seconds), 2)}


class _Calls:
    """Calls of one case in the form of each way; writing ones never repeat a name."""

    def __init__(self, stage: Stage, running: Gateway, case: Case, variants: int) -> None:
        self._variants = variants
        self._stage = stage
        self._states = count(1)
        self._running = running
        self._case = case
        self._fresh = count(1)
        self._scripts: list[Script] = []

    async def prepare(self) -> None:
        """Record what the tool asks of the database, once its statements are planned and what it keeps is there."""
        case, graph = self._case, self._stage.graphs[0]
        if not case.driver or self._scripts:
            return
        # The first is not kept. One that writes needs a name of its own: of what is known nothing is embedded.
        for number in (1, 0) if case.writes else (0, *range(self._variants)):
            await self.state()
            self._scripts.append(await self._stage.record(case.tool, case.arguments(graph, number + 9_000_000)))
        del self._scripts[0]

    async def state(self) -> None:
        """What has to happen before a call."""
        if self._case.before is not None:
            await self._case.before(self._stage, self._running, next(self._states))

    def of(self, way: Way, number: int) -> Sequence[Any]:
        """``number`` calls."""
        return [self._one(way, place) for place in range(number)]

    def _one(self, way: Way, place: int) -> Any:
        case, graph = self._case, self._stage.graphs[0]
        fresh = next(self._fresh) if case.writes else 9_000_000 + place % self._variants
        if way == "driver":
            if not case.writes:
                return renewed(self._scripts[place % self._variants])
            return renamed(renewed(self._scripts[0]), marker(9_000_000), marker(fresh))
        arguments = case.arguments(graph, fresh)
        if way == "sdk":
            return case.tool, arguments
        return tool_call(self._running.url, self._stage.tokens[0], case.tool, arguments)


async def all_cases(stage: Stage, size: Size, running: Gateway, chosen: str = "") -> AsyncIterator[dict[str, Any]]:
    """Every case, or those in whose name ``chosen`` is found, with one client and, where it says so, many: gateway,
    bare driver and, where a model works, driver with model."""
    async with _loads() as loads:
        for case in (case for case in CASES if re.search(chosen, case.name)):
            calls = _Calls(stage, running, case, min(VARIANTS, max(1, round(size.calls * case.share))))
            for clients in size.clients if case.crowd else size.clients[:1]:
                said(f"{case.name}, {clients} client{'s' * (clients > 1)}")
                about = {"case": case.name, "clients": clients, "target_p95": case.target}
                try:
                    await calls.prepare()
                    row = await _case(loads, stage, size, running, case, calls, clients)
                except (CallError, RuntimeError) as error:  # the other cases are none the worse
                    said(f"  {error}")
                    yield about | {"failed": str(error)}
                    continue
                said(f"  p95 {row['gateway']['p95']} ms of {row['gateway']['calls']} calls")
                yield about | row


async def _case(
    loads: _Loads, stage: Stage, size: Size, running: Gateway, case: Case, calls: _Calls, clients: int
) -> dict[str, Any]:
    kinds: list[tuple[str, Generator, Way, bool]] = [
        ("gateway", loads.http, "http", False),
    ]
    if case.driver:
        kinds.append(("driver", loads.driver, "driver", False))
    if case.driver and case.model:
        kinds.append(("driver_and_model", loads.driver, "driver", True))
    if case is CASES[0]:
        kinds.append(("sdk_client", loads.sdk, "sdk", False))
    series = {kind: _Series([]) for kind, *_ in kinds}
    for turn in range(size.rounds + 1):
        number = max(clients, round((size.calls if turn else size.warm) * case.share))
        for kind, generator, way, model in kinds:
            job = Job(
                way,
                calls.of(way, number),
                clients,
                url=running.url,
                tokens=stage.tokens,
                target=stage.target,
                model=model,
                seconds=size.turn_seconds,
            )
            one = series[kind] if turn else None  # the first turn only warms up
            await _turn(generator, job, one, running, calls, alone=case.before is not None)
    return {kind: one.figures() for kind, one in series.items()} | {"rss_mib": round(running.memory(), 1)}


async def _turn(
    generator: Generator, job: Job, series: _Series | None, running: Gateway, calls: _Calls, *, alone: bool
) -> None:
    """A job as a whole or, where something has to happen before each call, one call at a time."""
    elapsed = 0.0
    for part in [replace(job, calls=[call]) for call in job.calls] if alone else [job]:
        await calls.state()
        before = running.processor()
        outcome = await generator.run(part)
        if series is not None:
            series.add(outcome, outcome.processor if job.way == "driver" else running.processor() - before)
        elapsed += outcome.elapsed
        if job.seconds is not None and elapsed > job.seconds:
            return


async def noisy_neighbour(stage: Stage, size: Size) -> dict[str, Any]:
    """One tenant's latency while another calls at ten times its limit, and while it does not; default limits."""
    quiet, noisy, refused, served = _Series([]), _Series([]), 0, 0
    case = NEIGHBOURLY
    async with gateway(stage, limits={}) as running, _loads() as loads:
        clients = len(stage.tokens)
        # Each client stays below 120 calls a minute; ten times that is what the other tenant's one client sends.
        every = 0.6
        number = max(clients, round(size.noise_seconds / every * clients))
        spared = _paced(stage.graphs[0], case, running, stage.tokens, number, every)
        await loads.http.run(_paced(stage.graphs[0], case, running, stage.tokens, clients * 8, every))
        said("A noisy neighbour")
        for _ in range(size.rounds):
            quiet.add(await loads.http.run(spared))
            calls = max(4, round(size.noise_seconds * 20))
            loud = _paced(stage.graphs[1], case, running, [stage.noisy], calls, 4 / 20, clients=4)
            outcome, other = await asyncio.gather(loads.http.run(spared), loads.other.run(loud))
            noisy.add(outcome)
            refused, served = refused + other.refused, served + len(other.seconds)
    return {"quiet": quiet.figures(), "noisy": noisy.figures(), "refused": refused, "served": served}


def _paced(
    graph: Any, case: Case, running: Gateway, tokens: Sequence[str], number: int, every: float, clients: int = 0
) -> Job:
    requests = [
        tool_call(running.url, tokens[place % len(tokens)], case.tool, case.arguments(graph, place % VARIANTS))
        for place in range(number)
    ]
    return Job("http", requests, clients or len(tokens), url=running.url, every=every)


async def handshakes(stage: Stage, size: Size, running: Gateway) -> dict[str, Any]:
    """The gateway's memory over many ``initialize`` calls of the era that has them."""
    body = orjson.dumps(
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "bench", "version": "1"},
            },
        }
    )
    memory = []
    async with _loads() as loads:
        head = (
            f"POST /mcp HTTP/1.1\r\nHost: {running.url.split('/')[2]}\r\nAuthorization: Bearer {stage.tokens[0]}\r\n"
            f"Accept: application/json, text/event-stream\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n"
        ).encode()
        said("Handshakes")
        for _ in range(11):  # the first tenth warms up
            await loads.http.run(Job("http", [head + body] * (size.handshakes // 10), 4, url=running.url))
            memory.append(round(running.memory(), 1))
    return {"calls": size.handshakes, "rss_mib": memory, "growth_mib": round(memory[-1] - memory[0], 1)}
