"""What a tool asks of the database, recorded once, and played by the bare driver.

The tool itself runs against a driver that writes down each statement with its parameters, each transaction, and which
of them ran at the same time. Played again, that is what the same work costs without a gateway.
"""

from __future__ import annotations

import asyncio
import re
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

from neo4j import READ_ACCESS, WRITE_ACCESS, AsyncDriver, AsyncGraphDatabase, Query

from app.embedding.provider import Embedder

__all__ = ["RecordingDriver", "RecordingEmbedder", "Script", "Step", "Tape", "Target", "play", "renamed", "renewed"]

EVERY_ROW: Final = 2**31
SECONDS: Final = 120.0
_DRAWN: Final = re.compile(r"[a-z]+-[0-9a-f]{24}\Z")


@dataclass(frozen=True)
class Target:
    """A database."""

    uri: str
    user: str
    password: str
    database: str = "neo4j"

    def driver(self) -> AsyncDriver:
        """A bare driver of it."""
        return AsyncGraphDatabase.driver(
            self.uri, auth=(self.user, self.password), notifications_min_severity="OFF", telemetry_disabled=True
        )


@dataclass
class Step:
    """One read, one write transaction, or one embedding of texts."""

    kind: str
    statements: list[tuple[LiteralString, dict[str, Any]]] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    began: float = 0.0
    ended: float = 0.0


Script = Sequence[Sequence[Step]]
"""Steps one after the other; those of an inner list at the same time."""


class Tape:
    """The steps of one run of a tool."""

    def __init__(self) -> None:
        self._steps: list[Step] = []

    def begin(self, kind: str) -> Step:
        """Note that a step begins."""
        step = Step(kind, began=time.perf_counter())
        self._steps.append(step)
        return step

    def take(self) -> Script:
        """The steps since the last call of this."""
        script: list[list[Step]] = []
        until = 0.0
        for step in self._steps:
            if not script or step.began >= until:
                script.append([])
            script[-1].append(step)
            until = max(until, step.ended)
        self._steps = []
        return script


class _Transaction:
    def __init__(self, real: Any, step: Step) -> None:
        self._real = real
        self._step = step

    async def run(self, text: LiteralString, parameters: dict[str, Any]) -> Any:
        self._step.statements.append((text, dict(parameters)))
        return await self._real.run(text, parameters)

    async def commit(self) -> None:
        await self._real.commit()
        self._step.ended = time.perf_counter()

    async def close(self) -> None:
        await self._real.close()


class _Session:
    def __init__(self, real: Any, tape: Tape) -> None:
        self._real = real
        self._tape = tape
        self._step: Step | None = None

    async def __aenter__(self) -> _Session:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._real.close()
        if self._step is not None:
            self._step.ended = time.perf_counter()

    async def run(self, query: Query, parameters: dict[str, Any]) -> Any:
        self._step = self._tape.begin("read")
        self._step.statements.append((query.text, dict(parameters)))
        return await self._real.run(query, parameters)

    async def begin_transaction(self, **options: Any) -> _Transaction:
        return _Transaction(await self._real.begin_transaction(**options), self._tape.begin("write"))

    def cancel(self) -> None:
        self._real.cancel()

    async def close(self) -> None:
        await self._real.close()


class RecordingDriver:
    """A driver that writes down what is asked of it; what the store uses of a driver, and no more."""

    def __init__(self, driver: AsyncDriver, tape: Tape) -> None:
        self._driver = driver
        self._tape = tape

    def session(self, **configuration: Any) -> _Session:
        """A session that is written down."""
        return _Session(self._driver.session(**configuration), self._tape)


class RecordingEmbedder:
    """An embedder that writes down what it embeds."""

    def __init__(self, embedder: Embedder, tape: Tape) -> None:
        self._embedder = embedder
        self._tape = tape

    @property
    def identity(self) -> Any:
        """The embedder's."""
        return self._embedder.identity

    async def query(self, text: str, deadline: Any) -> list[float]:
        """The vector of a query."""
        step = self._tape.begin("embed")
        step.texts = [text]
        vector = await self._embedder.query(text, deadline)
        step.ended = time.perf_counter()
        return vector

    async def passages(self, texts: Sequence[str], deadline: Any) -> list[list[float]]:
        """The vectors of texts."""
        step = self._tape.begin("embed")
        step.texts = list(texts)
        vectors = await self._embedder.passages(texts, deadline)
        step.ended = time.perf_counter()
        return vectors


async def play(driver: AsyncDriver, database: str, script: Script, model: Any) -> None:
    """Do what a script says; without a ``model`` its embeddings are left out."""
    for steps in script:
        doing = [_STEPS[step.kind](driver, database, step) for step in steps if step.kind != "embed"]
        if model is not None:
            doing += [model.encode(step.texts) for step in steps if step.kind == "embed"]
        if len(doing) == 1:
            await doing[0]
        else:
            await asyncio.gather(*doing)


async def _read(driver: AsyncDriver, database: str, step: Step) -> None:
    text, parameters = step.statements[0]
    async with driver.session(database=database, default_access_mode=READ_ACCESS, bookmark_manager=None) as session:
        query = Query(text, metadata={"request": "bench"}, timeout=SECONDS)
        result = await session.run(query, parameters)
        await result.fetch(EVERY_ROW)


async def _write(driver: AsyncDriver, database: str, step: Step) -> None:
    async with driver.session(database=database, default_access_mode=WRITE_ACCESS, bookmark_manager=None) as session:
        transaction = await session.begin_transaction(metadata={"request": "bench"}, timeout=SECONDS)
        for text, parameters in step.statements:
            result = await transaction.run(text, parameters)
            await result.fetch(EVERY_ROW)
        await transaction.commit()


_STEPS: Final = {"read": _read, "write": _write}


def renamed(script: Script, old: str, new: str) -> Script:
    """The same script about other names: ``old`` replaced by ``new`` in every text of every parameter."""
    return [
        [
            Step(
                step.kind,
                [(text, _renamed(parameters, old, new)) for text, parameters in step.statements],
                _renamed(step.texts, old, new),
            )
            for step in steps
        ]
        for steps in script
    ]


def renewed(script: Script) -> Script:
    """The same script with ids of its own for the entries that it adds to the audit trail, which are unique."""
    return [
        [
            Step(step.kind, [(text, _renewed(parameters)) for text, parameters in step.statements], step.texts)
            for step in steps
        ]
        for steps in script
    ]


def _renewed(parameters: dict[str, Any]) -> dict[str, Any]:
    given = parameters.get("id")
    if not isinstance(given, str) or not _DRAWN.match(given):
        return parameters
    return {**parameters, "id": f"{given.partition('-')[0]}-{secrets.token_hex(12)}"}


def _renamed(value: Any, old: str, new: str) -> Any:
    if isinstance(value, str):
        return value.replace(old, new)
    if isinstance(value, Mapping):
        return {key: _renamed(item, old, new) for key, item in value.items()}
    if isinstance(value, list) and not (value and isinstance(value[0], float)):
        return [_renamed(item, old, new) for item in value]
    return value
