"""Writing records under a data id that nobody reads yet, a batch in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from neo4j.time import DateTime

from app.context import Scope
from app.contract import Json
from app.counting import counted
from app.errors import InvalidInput
from app.store.moving.format import Counts
from app.store.moving.queries import COUNT_STORED, FIND_DOUBLES, WRITE_ALIASES, WRITE_EDGES, WRITE_NODES
from app.store.session import TenantSession, Writing
from app.store.statement import INJECTED, Statement

__all__ = ["BATCH", "BATCH_BYTES", "Load", "Row", "native_moment"]

BATCH: Final = 4000
"""Most records of one transaction: each commit costs the text index about as much as a thousand records."""
BATCH_BYTES: Final = 4 * 1024 * 1024
"""Most bytes of their texts and vectors: in the server's memory, which is bounded too, they take some times as many."""


@dataclass(frozen=True, slots=True)
class Row:
    """One record, ready to be written. ``kind`` is node, alias or edge; ``layer`` as the data spells it.

    ``values`` hold what the statement of its kind takes: ``id``, ``label``, ``fields`` and two moments; ``id``,
    ``target`` and ``name``; ``source``, ``relation``, ``target``, ``fields`` and five moments. Moments are ISO text.
    """

    kind: str
    layer: str
    line: int
    values: Mapping[str, Any]

    def size(self) -> int:
        """About how many bytes its texts and its vector have."""
        return sum(map(_size, self.values.get("fields", {}).values()))


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value)
    return sum(map(_size, value)) if isinstance(value, list) else 8


def native_moment(text: str) -> DateTime:
    """A moment for the database, to the nanosecond.

    Raises:
        ValueError: it is none.
    """
    made: DateTime = DateTime.from_iso_format(text.replace("Z", "+00:00"))
    return made


class Load:
    """Fills one new data id. Rows come in the order of a file: a relation after both of its ends."""

    def __init__(self, open_session: Callable[[Scope], TenantSession], data: str) -> None:
        self._open = open_session
        self._data = data
        self._layers: set[str] = set()
        self.counts = Counts()
        """Rows written."""

    async def write(self, rows: Sequence[Row]) -> None:
        """Write rows of one kind and layer, all or none.

        Raises:
            InvalidInput: a relation's end was not written before; the line is named.
            CallError: the database does not take it.
        """
        kind, layer = rows[0].kind, rows[0].layer
        session = self._open(Scope(self._data, (layer,), (layer,), layer, "load"))
        self._layers.add(layer)
        given = [_guarded(row) for row in rows]

        async def work(writing: Writing) -> Json:
            found = await writing.run(_STATEMENTS[kind], rows=given)
            return {"written": found[0]["written"] if found else []}

        answer = await session.write(work)
        if kind == "edge":
            lost = sorted({row.line for row in rows} - set(answer["written"]))
            if lost:
                raise InvalidInput(f"line {lost[0]}: a relation whose ends are not in the file.", field="file")
        self.counts.add(kind, len(rows))

    async def check(self, expected: Counts) -> None:
        """Hold what is stored against what the file said.

        Raises:
            InvalidInput: records are missing, or the file held one twice.
        """
        session = self._open(Scope(self._data, tuple(sorted(self._layers)), (), None, "load"))
        stored = Counts(**(await session.read(COUNT_STORED))[0])
        if stored != expected or (await session.read(FIND_DOUBLES))[0]["doubles"]:
            raise InvalidInput(
                f"the file names a record twice: {_words(expected)} in it make {_words(stored)}. Nothing was applied.",
                field="file",
            )


_STATEMENTS: Final[Mapping[str, Statement]] = {"node": WRITE_NODES, "alias": WRITE_ALIASES, "edge": WRITE_EDGES}


def _guarded(row: Row) -> dict[str, Any]:
    """The values of a row; its fields may never name a partition."""
    fields: Iterable[str] = row.values.get("fields", ())
    if not INJECTED.isdisjoint(fields) or "id" in fields:
        raise InvalidInput(f"line {row.line}: a property has a name that belongs to graphkeep.", field="file")
    return {**row.values, "line": row.line}


def _words(counts: Counts) -> str:
    aliases = counted(counts.aliases, "alias", "aliases")
    return f"{counted(counts.nodes, 'node')}, {aliases} and {counted(counts.edges, 'edge')}"
