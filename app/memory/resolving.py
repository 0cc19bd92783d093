"""From the names of a call to the entities that they mean, in the write layer and tenant-wide (partition rule 7)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final

from app.context import TENANT_WIDE, Scope
from app.graph.lookup import Resolution, resolve
from app.memory.compose import Involved, Stored, stored_entity
from app.memory.plan import ALIAS_OF, Mention, Plan
from app.memory.queries import READ_ENDS
from app.memory.timeline import Said
from app.settings import MemorySettings
from app.store.database import TenantSession

__all__ = ["Known", "Work", "resolved", "writing_scope"]


_SHOWN: Final = 5


@dataclass(slots=True)
class Known:
    """What the call may know of one entity: its copies in the write layer and tenant-wide."""

    own: Stored | None = None
    wide: Stored | None = None

    @property
    def is_rule(self) -> bool:
        """Whether neither it nor its relations fade."""
        return any(copy is not None and copy.is_rule for copy in (self.own, self.wide))

    @property
    def shown(self) -> Stored | None:
        """The copy that names it (partition rule 4: tenant-wide first)."""
        return self.wide or self.own


@dataclass(slots=True)
class Work:
    """A resolved call."""

    plan: Plan
    known: dict[str, Known]
    ids: dict[str, str]
    """From the id that a name gives to the entity that it means (through an alias)."""
    said: list[Said] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)

    def involved(self) -> dict[str, Involved]:
        """Every entity that the call touches, by id."""
        found: dict[str, Involved] = {}
        for mention in self.plan.mentions:
            entry = self._entry(found, self.ids[mention.id], mention)
            entry.mentions.append(mention)
            entry.spellings.append(mention.name)
        for source, target, said in self.plan.relations:
            for end in (source, target):
                entry = self._entry(found, self.ids[end.id], None)
                if said.evidence:
                    entry.evidence.insert(0, said.evidence)
                if self.ids[end.id] == end.id:
                    entry.spellings.append(end.text)
            if said.relation == ALIAS_OF:
                found[self.ids[target.id]].spellings.append(source.text)
        return found

    def aliases(self) -> list[dict[str, str]]:
        """Names that ALIAS_OF makes lead to another entity: exact lookup finds them once nothing has that id."""
        return [
            {"id": source.id, "target": self.ids[target.id], "name": source.text}
            for source, target, said in self.plan.relations
            if said.relation == ALIAS_OF
        ]

    def _entry(self, found: dict[str, Involved], id_: str, mention: Mention | None) -> Involved:
        if id_ not in found:
            shown = self.known[id_].shown
            if shown is not None:
                found[id_] = Involved(id_, shown.name, shown.type, shown.confidence)
            elif mention is not None:
                found[id_] = Involved(id_, mention.name, mention.type, mention.confidence)
            else:  # an unresolved reference: refused before anything is written
                found[id_] = Involved(id_, id_, "Concept", 0.0)
        return found[id_]


def writing_scope(scope: Scope) -> Scope:
    """What an asserting write may know and touch: the write layer and, where granted, tenant-wide to read."""
    layer = scope.write_layer
    if layer is None:
        return scope
    wide = layer != TENANT_WIDE and TENANT_WIDE in scope.layers
    return replace(scope, layers=(TENANT_WIDE, layer) if wide else (layer,), writable=(layer,))


async def resolved(session: TenantSession, plan: Plan, memory: MemorySettings) -> Work:
    """Read what the call's names stand for: one round trip, and another only to help with lost references.

    Confidences are what is left of them by now.
    """
    now = datetime.now(UTC)
    rows = await session.read(READ_ENDS, ids=plan.ids())
    work = Work(plan, {}, {})
    for row in rows:
        copies = [stored_entity(copy["layer"], copy["properties"]) for copy in row["copies"] or row["aliased"]]
        id_ = min((copy.id for copy in copies), default=row["id"])
        if len(fits := {copy.id: copy.name for copy in copies}) > 1:
            several = ", ".join(f"{name!r} (id {each})" for each, name in sorted(fits.items())[:_SHOWN])
            work.unresolved.append(f"{row['id']!r} fits several entities ({several}), give an id")
        work.ids[row["id"]] = id_
        entry = work.known.setdefault(id_, Known())
        meant = [copy for copy in copies if copy.id == id_]
        if not any(copy.is_rule for copy in meant):
            meant = [copy.faded(memory, now) for copy in meant]
        for copy in meant:
            if copy.layer == session.scope.write_layer:
                entry.own = copy
            else:
                entry.wide = copy
    lost = _resolve_relations(work)
    if lost:
        work.unresolved += await _explained(session, lost)
    return work


def _resolve_relations(work: Work) -> list[tuple[str, str]]:
    described = {work.ids[mention.id] for mention in work.plan.mentions}
    lost: list[tuple[str, str]] = []
    for number, (source, target, said) in enumerate(work.plan.relations):
        for side, end in (("from", source), ("to", target)):
            id_ = work.ids[end.id]
            if id_ not in described and work.known[id_].shown is None:
                lost.append((f"batch.relations[{number}].{side}", end.text))
        meant = replace(said, source=work.ids[source.id], target=work.ids[target.id])
        if meant.source == meant.target:
            work.unresolved.append(f"{source.text!r} and {target.text!r} are one entity already")
        work.said.append(meant)
    return lost


async def _explained(session: TenantSession, lost: Sequence[tuple[str, str]]) -> list[str]:
    near = await resolve(session.read, list(dict.fromkeys(text for _, text in lost))[:50])
    return [
        f"{where} {text!r} is no localId and no known name, alias or id{_hint(near.get(text))}" for where, text in lost
    ]


def _hint(resolution: Resolution | None) -> str:
    if resolution is None:
        return ""
    names = [resolution.name] if resolution.name else [candidate.name for candidate in resolution.candidates]
    return f" (did you mean {' or '.join(repr(name) for name in names[:3])}?)" if names else ""
