"""The door for an operator's own query: one guarded query in one managed READ transaction, bounded in time and size.

The only way in which text that is no registered statement reaches the database.
"""

from __future__ import annotations

import asyncio
import base64
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from neo4j import READ_ACCESS, AsyncDriver, AsyncManagedTransaction, unit_of_work
from neo4j.exceptions import ClientError
from neo4j.graph import Node, Path, Relationship
from neo4j.time import Date, DateTime, Duration, Time

from app.context import Deadline
from app.errors import InvalidInput
from app.store.execution import Trace
from app.store.failures import DATABASE_FAILURES, called_off, translate

__all__ = ["Asked", "ask"]

_INTERNAL: Final = frozenset({"embedding", "names", "words", "partition", "thread", "position", "evidence_text"})
"""Vectors and search fields: nothing that people wrote."""
_VECTOR: Final = 32
"""Numbers in a list from which it is taken for a vector."""
_MESSAGE: Final = 300
_LARGEST: Final = 2**63
_STATEMENT: Final = ("Neo.ClientError.Statement.", "Neo.ClientError.Schema.", "Neo.ClientError.Request.")


@dataclass(frozen=True, slots=True)
class Asked:
    """Rows as JSON; ``truncated`` when there are more than the limits let through."""

    rows: list[dict[str, Any]]
    truncated: bool


async def ask(
    driver: AsyncDriver,
    database: str,
    text: str,
    parameters: Mapping[str, Any],
    deadline: Deadline,
    trace: Trace,
    *,
    rows: int,
    characters: int,
) -> Asked:
    """Run a query that ``app.store.guard.guarded`` has passed.

    Raises:
        InvalidInput: the database refuses it, or a parameter is no value that it knows.
        DeadlineExceeded: no time is left.
        CallError: what else the store raises.
    """
    _check(parameters)
    seconds = max(deadline.remaining(), 0.001)

    @unit_of_work(metadata=trace.metadata(), timeout=seconds)
    async def work(transaction: AsyncManagedTransaction) -> Asked:
        result = await transaction.run("CYPHER 25 " + text, dict(parameters))
        found: list[dict[str, Any]] = []
        room = characters
        async for record in result:
            row = {str(key): _plain(value) for key, value in zip(record.keys(), record.values(), strict=True)}
            room -= len(orjson.dumps(row).decode()) + 1
            if len(found) == rows or room < 0:
                return Asked(found, truncated=True)
            found.append(row)
        return Asked(found, truncated=False)

    try:
        async with asyncio.timeout(deadline.remaining()) as clock:
            async with driver.session(
                database=database, default_access_mode=READ_ACCESS, bookmark_manager=None
            ) as session:
                return await session.execute_read(work)
    except TimeoutError:
        if clock.expired():
            raise called_off("not_applied") from None
        raise
    except DATABASE_FAILURES as error:
        if isinstance(error, ClientError) and str(error.code).startswith(_STATEMENT):
            said = " ".join(str(error.message).split())[:_MESSAGE]
            raise InvalidInput(f"The database refuses this query: {said}", field="cypher") from None
        raise translate(error, outcome="not_applied", statement="asking.query", request_id=trace.request_id) from error


def _check(value: Any) -> None:
    """Refuse a parameter that is no value of the database.

    Raises:
        InvalidInput: an integer of more than 64 bits, or half a surrogate pair.
    """
    if isinstance(value, Mapping):
        for key, inner in value.items():
            _check(key)
            _check(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            _check(inner)
    elif isinstance(value, int) and not -_LARGEST <= value < _LARGEST:
        raise InvalidInput("An integer in params may have 64 bits at most. Nothing was run.", field="params")
    elif isinstance(value, str) and any("\ud800" <= ch <= "\udfff" for ch in value):
        raise InvalidInput("Text in params must be valid Unicode. Nothing was run.", field="params")


def _plain(value: Any) -> Any:
    """A value as JSON can say it, without vectors and search fields."""
    if value is None or isinstance(value, bool | str | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, DateTime | Date | Time | Duration):
        return value.iso_format()
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(value).decode()
    return _record(value) if isinstance(value, Node | Relationship | Path) else _composed(value)


def _record(value: Node | Relationship | Path) -> dict[str, Any]:
    if isinstance(value, Node):
        return {"labels": sorted(value.labels), "properties": _properties(value)}
    if isinstance(value, Relationship):
        return {"type": value.type, "properties": _properties(value)}
    return {"nodes": list(map(_record, value.nodes)), "relationships": list(map(_record, value.relationships))}


def _composed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items() if key not in _INTERNAL}
    if isinstance(value, list | tuple):
        if len(value) > _VECTOR and all(isinstance(inner, float) for inner in value):
            return f"[{len(value)} numbers]"
        return [_plain(inner) for inner in value]
    return str(value)


def _properties(record: Node | Relationship) -> dict[str, Any]:
    return {key: _plain(value) for key, value in sorted(record.items()) if key not in _INTERNAL}
