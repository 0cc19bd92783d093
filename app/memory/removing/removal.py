"""Taking entities and relations away: their copies in writable layers, what only led to them, and all that is searched.

Used inside a write, after what goes was chosen. What was taken can be given back (``undo_id``).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.memory.evidence import evidence_notes, searched_again
from app.memory.queries import LOCK_COPIES
from app.memory.removing.queries import COPIES, ENDS, REMOVE
from app.store.database import Writing
from app.store.images import Images
from app.store.undo import Recording

__all__ = ["Copy", "Going", "Triple", "locked", "removed"]

Triple = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Copy:
    """A visible copy of an entity that is to go."""

    id: str
    layer: str
    name: str
    type: str
    may: bool
    """Whether it may be written."""
    backed: bool
    """Whether something other than the memory needs it."""

    @property
    def goes(self) -> bool:
        """Whether it is deleted."""
        return self.may and not self.backed

    def kept(self) -> dict[str, Any]:
        """As an answer tells of a copy that stays."""
        why = "in use elsewhere" if self.may else "not writable here"
        return {"id": self.id, "name": self.name, "type": self.type, "layer": self.layer or "tenant", "why": why}


@dataclass(slots=True)
class Going:
    """What goes, locked: entities (those that are only another name of them too) and relations."""

    ids: list[str]
    triples: list[Triple]
    aliases: list[str]
    """Entities among ``ids`` that are only another name of others."""
    ends: list[str]
    """Entities that stay and whose searchable evidence changes."""
    before: Images
    copies: list[Copy] = field(default_factory=list)

    def relations(self) -> set[Triple]:
        """Every relation that goes, merged."""
        return {(key[2], key[3], key[4]) for key in self.before.records if key[0] == "relation"}

    def size(self) -> tuple[int, int]:
        """Copies of entities and of relations that go: what a quota counts."""
        relations = [image for key, image in self.before.records.items() if key[0] == "relation"]
        return sum(copy.goes for copy in self.copies), sum(len(image["copies"]) for image in relations)

    def layers(self) -> list[str]:
        """Layers in which something goes."""
        relations = {key[1] for key in self.before.records if key[0] == "relation"}
        return sorted(relations | {copy.layer for copy in self.copies if copy.goes})


async def locked(writing: Writing, recording: Recording, ids: Iterable[str], triples: Iterable[Triple]) -> Going:
    """Lock what goes and all that changes with it, and read what goes.

    The ends that stay are locked and not recorded: many calls mention them, each of which would stand in the way of
    undoing this one. What is searched of them follows when it is undone.

    Raises:
        Conflict: more than one change may take away.
    """
    wanted, relations = sorted(set(ids)), sorted(set(triples))
    at = {end for triple in relations for end in triple[::2]}
    await writing.run(LOCK_COPIES, ids=sorted({*wanted, *at}))
    row = (await writing.run(ENDS, ids=wanted, triples=[list(triple) for triple in relations]))[0]
    aliases = sorted(row["aliases"])
    every = sorted({*wanted, *aliases})
    ends = sorted(set(row["ends"]) - set(every))
    await writing.run(LOCK_COPIES, ids=sorted({*row["around"], *every}))
    before = await recording.before(writing, around=every, triples=relations)
    copies = [Copy(**copy) for copy in await writing.run(COPIES, ids=every)]
    return Going(every, relations, aliases, ends, before, copies)


async def removed(writing: Writing, recording: Recording, going: Going, summary: str) -> tuple[int, str | None]:
    """Take it away; the number of alias records that went, and the id by which all of it can be undone.

    Raises:
        Conflict: the change is too large to be undone; nothing of it is applied.
    """
    row = (await writing.run(REMOVE, ids=going.ids, triples=[list(triple) for triple in going.triples]))[0]
    staying = {copy.id for copy in going.copies if copy.may and copy.backed}
    changed = await searched_again(writing, sorted({*going.ends, *staying}))
    notes = evidence_notes({end: said for end, said in changed.items() if end[1] not in staying})
    return row["aliases"], await recording.after(writing, going.before, summary=summary, notes=notes)
