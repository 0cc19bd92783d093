"""From names to ids: exact id, alias, then fuzzy (decisions: lookup of names), many names in one round trip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from app.store.statement import Statement

__all__ = ["Candidate", "Reads", "Resolution", "resolve"]


class Reads(Protocol):
    """Runs a read: ``TenantSession.read`` or ``Writing.run``."""

    async def __call__(self, statement: Statement, /, **parameters: Any) -> list[dict[str, Any]]: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """An entity that a name may mean."""

    id: str
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Resolution:
    """What a name stands for. ``how``: ``id``, ``alias``, ``fuzzy``, ``ambiguous`` or ``unknown``.

    ``id`` is the entity's id where it is certain, else None; ``slug`` is the id that a new entity of this name gets.
    """

    asked: str
    slug: str
    how: str
    id: str | None = None
    name: str | None = None
    type: str | None = None
    candidates: tuple[Candidate, ...] = field(default=())


async def resolve(run: Reads, names: Sequence[str], *, fuzzy: bool = True) -> dict[str, Resolution]:
    """Each of ``names`` as what it stands for among the layers that ``run`` reads. One round trip.

    Pass ``session.read`` or, inside a write, ``writing.run``. Typing errors: one edit in words of 4 to 7 letters, two
    in longer ones; several entities equally near are ``ambiguous`` and come as ``candidates``, ordered by id.

    Raises:
        InvalidInput: a blank or overlong name.

    """
    raise NotImplementedError
