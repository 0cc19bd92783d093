"""Which entities were written lately in this process, so that who keeps a reading reads again only what they touch.

A writing statement declares which of its parameters name the entities that it may change (``Statement.touches``). Noted
is what a transaction may have changed, by layer, once its commit has ended, whatever became of it. While the server may
still be finishing a commit whose outcome is unknown, what it may change counts as touched at every moment. Nothing is
told of one partition to who reads another: a reader learns of writes to its own layers alone. The bounds are shared:
that others wrote much may make a reader read everything again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from app.store.statement import Statement

__all__ = ["Lately", "Touches"]

_MOST_IDS: Final = 4_000
"""Ids remembered of a layer; of what was written before the oldest of them nothing is known."""
_MOST_LAYERS: Final = 2_000
_MOST_ALTOGETHER: Final = 100_000
"""Ids of all layers; the layer that was written to longest ago is forgotten first."""


class Touches:
    """What one transaction may change: ids of entities by layer, None for all of a layer."""

    __slots__ = ("by_layer",)

    def __init__(self) -> None:
        self.by_layer: dict[str, set[str] | None] = {}

    def note(self, statement: Statement, parameters: Mapping[str, Any]) -> None:
        """Note what ``statement`` may change with these parameters, the session's own among them."""
        if not statement.writes or statement.control:
            return
        ids = None if statement.touches is None else set(_named(statement.touches, parameters))
        own = [parameters["layer"]] if "layer" in statement.injected else []
        for layer in parameters["writable"] if "writable" in statement.injected else own:
            known = self.by_layer.setdefault(layer, set())
            self.by_layer[layer] = None if ids is None or known is None else known | ids


def _named(paths: Iterable[str], parameters: Mapping[str, Any]) -> Iterator[str]:
    for path in paths:
        name, _, part = path.partition(".")
        value = parameters[name]
        if part:
            yield from (row[int(part) if part.isdigit() else part] for row in value)
        elif isinstance(value, str):
            yield value
        else:
            yield from value


class _Log:
    """Ids of one layer, by the number of the commit that touched them last, the oldest first."""

    __slots__ = ("ids", "since")

    def __init__(self, since: int) -> None:
        self.ids: dict[str, int] = {}
        self.since = since
        """What was touched after this commit is known."""

    def add(self, number: int, ids: Iterable[str] | None) -> None:
        if ids is None:
            self.ids.clear()
            self.since = number
            return
        for id_ in ids:
            self.ids.pop(id_, None)
            self.ids[id_] = number
        while len(self.ids) > _MOST_IDS:
            self.since = self.ids.pop(next(iter(self.ids)))

    def after(self, mark: int) -> Iterator[str]:
        for id_, number in reversed(self.ids.items()):
            if number <= mark:
                return
            yield id_


class Lately:
    """What was touched by the commits that ended here; they are numbered."""

    def __init__(self) -> None:
        self._logs: dict[tuple[str, str], _Log] = {}
        self._doubts: dict[Touches, tuple[str, asyncio.TimerHandle]] = {}
        self._forgotten = 0
        self._held = 0
        self.mark = 0
        """The last commit that ended: what is read from now on shows it and all before."""

    def ended(self, tenant: str, touches: Touches) -> None:
        """A commit has ended; whether it was applied need not be known."""
        self.mark += 1
        for layer, ids in touches.by_layer.items():
            log = self._logs.pop((tenant, layer), None) or _Log(self._forgotten)
            self._held -= len(log.ids)
            log.add(self.mark, ids)
            self._held += len(log.ids)
            self._logs[tenant, layer] = log
        while len(self._logs) > _MOST_LAYERS or self._held > _MOST_ALTOGETHER:
            self._held -= len(self._logs.pop(next(iter(self._logs))).ids)
            self._forgotten = self.mark

    def doubted(self, tenant: str, touches: Touches, seconds: float) -> None:
        """A commit's outcome is unknown; for so many seconds it may yet be applied, and has ended then."""
        if touches.by_layer:
            timer = asyncio.get_running_loop().call_later(seconds, self._doubt_over, touches)
            self._doubts[touches] = tenant, timer

    def _doubt_over(self, touches: Touches) -> None:
        tenant, _ = self._doubts.pop(touches)
        self.ended(tenant, touches)

    def close(self) -> None:
        """Wait for no commit any more."""
        for _, timer in self._doubts.values():
            timer.cancel()
        self._doubts.clear()

    def touched_since(self, tenant: str, layers: Iterable[str], mark: int) -> set[str] | None:
        """Ids of the entities in these layers that may have changed since ``mark``; None: any may have."""
        touched: set[str] = set()
        for layer in layers:
            log = self._logs.get((tenant, layer))
            if mark < (self._forgotten if log is None else log.since):
                return None
            if log is not None:
                touched.update(log.after(mark))
            for doubtful in self._doubtful(tenant, layer):
                if doubtful is None:
                    return None
                touched |= doubtful
        return touched

    def _doubtful(self, tenant: str, layer: str) -> Iterator[set[str] | None]:
        for touches, (whose, _) in self._doubts.items():
            if whose == tenant and layer in touches.by_layer:
                yield touches.by_layer[layer]
