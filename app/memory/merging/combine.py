"""Two entities as one. Pure: from the exact images of both to those of what is to be (partition rules 9 and 11)."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from app.graph.identity import entity_id
from app.memory.compose import bounded
from app.memory.fading.rest import rest
from app.memory.merging.consolidate import consolidated, described_relation, moment_of
from app.memory.merging.entity import Draft, described, pieces
from app.memory.moments import moment_text
from app.settings import MemorySettings
from app.store.images import Image, Key

__all__ = ["Combined", "Fading", "Party", "Triple", "combine", "led"]

Triple = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class Party:
    """One of the two, as its visible copies show it together."""

    id: str
    name: str
    type: str


@dataclass(frozen=True, slots=True)
class Fading:
    """How what comes together has faded by ``now``; ``rules`` are entities that do not fade, nor their relations."""

    memory: MemorySettings
    rules: Collection[str]
    now: datetime

    def confidence(self, entity: Mapping[str, Any]) -> float:
        """What is left of an entity's."""
        held = float(entity.get("confidence", 0.5))
        if entity.get("id") in self.rules or "confidence" not in entity:
            return held
        rate = self.memory.rates.get(entity["type"], self.memory.decay_other_rate)
        return rest(held, moment_of(entity, "last_seen"), entity.get("decay_state"), rate, self.now)

    def relation(self, key: Key, copy: Image) -> Image:
        """A copy of the relation ``key`` with what is left of its weight."""
        held = copy["properties"]
        if key[2] in self.rules or key[4] in self.rules or "weight" not in held:
            return copy
        seen, state = moment_of(held, "last_confirmed"), held.get("decay_state")
        left = rest(float(held["weight"]), seen, state, self.memory.decay_edge_rate, self.now)
        return {**copy, "properties": {**held, "weight": left}}


@dataclass(slots=True)
class Combined:
    """What merging does. Relations are merged ones: (source, relation, target) as they are afterwards."""

    wanted: dict[Key, Image | None] = field(default_factory=dict)
    drafts: dict[Key, Draft] = field(default_factory=dict)
    added: set[Triple] = field(default_factory=set)
    consolidated: set[Triple] = field(default_factory=set)
    dropped: set[Triple] = field(default_factory=set)
    adopted: set[str] = field(default_factory=set)
    aliases: dict[str, None] = field(default_factory=dict)
    """Names that lead to the target now."""

    def layers(self) -> list[str]:
        """Layers that change."""
        return sorted({key[1] for key in [*self.wanted, *self.drafts]})


def combine(
    records: Mapping[Key, Image],
    source: Party,
    target: Party,
    fading: Fading,
    *,
    gone: Collection[str] = (),
) -> Combined:
    """Merge ``source`` into ``target`` in each layer that has a copy of the source.

    ``records`` holds all visible copies of both, the source's relations and the target's to the same neighbours, and
    what has the ids of the source's names; ``gone`` is the evidence that no relation gives any more.

    Raises:
        InvalidInput: the properties of the two together are more than one record may have.
    """
    done = Combined()
    known = _known(records, target)
    for layer in sorted(key[1] for key in records if key[0] == "entity" and key[2] == source.id):
        _relations(done, records, layer, source, target, fading)
        _entity(done, records, layer, source, target, fading, known=known, gone=gone)
        _aliases(done, records, layer, source, target)
    return done


def _known(records: Mapping[Key, Image], target: Party) -> set[str]:
    """Properties that the target has in any visible copy: a layer's copy must not cover them with another value."""
    copies = [image for key, image in records.items() if key[0] == "entity" and key[2] == target.id]
    return {name for copy in copies for name, value in described(copy)[0].items() if value is not None}


def _relations(
    done: Combined, records: Mapping[Key, Image], layer: str, source: Party, target: Party, fading: Fading
) -> None:
    visible = {key[2:] for key in records if key[0] == "relation"}
    for key, image in records.items():
        if key[:2] != ("relation", layer) or source.id not in key[2::2]:
            continue
        done.wanted[key] = None
        if key[2] in {source.id, target.id} and key[4] in {source.id, target.id}:
            done.dropped.add((key[2], key[3], key[4]))
            continue
        moved = (target.id if key[2] == source.id else key[2], key[3], target.id if key[4] == source.id else key[4])
        place = ("relation", layer, *moved)
        copies = [(of, copy) for of in (place, key) if of in records for copy in records[of]["copies"]]
        faded = [fading.relation(of, copy) for of, copy in copies]
        whole, *others = faded if len(copies) > 1 else [image["copies"][0]]
        for copy in others:
            held, whole = whole, consolidated(whole, copy, fading.now)
            bounded(" ".join(moved), described_relation(held), described_relation(whole), field=None)
        done.wanted[place] = {"copies": [whole]}
        (done.consolidated if moved in visible else done.added).add(moved)


def _entity(
    done: Combined,
    records: Mapping[Key, Image],
    layer: str,
    source: Party,
    target: Party,
    fading: Fading,
    *,
    known: set[str],
    gone: Collection[str],
) -> None:
    lost, kept = records["entity", layer, source.id], records.get(("entity", layer, target.id))
    mine, theirs = kept["properties"] if kept else {}, lost["properties"]
    properties, aliases = described(kept)
    adopted = {name: value for name, value in described(lost)[0].items() if value is not None and name not in known}
    bounded(target.name, properties or described(lost)[0], {**properties, **adopted}, field=None)
    name, type_ = (mine["name"], mine["type"]) if kept else (target.name, target.type)
    draft = Draft(target.id, name, type_, theirs["partition"], kept, aliases, {**properties, **adopted})
    draft.name_also([theirs["name"], *described(lost)[1]])
    draft.evidence = [piece for piece in [*pieces(kept), *pieces(lost)] if piece not in gone]
    draft.fields = {
        "confidence": max(fading.confidence(side) for side in (mine, theirs) if side),
        "times_mentioned": sum(int(side.get("times_mentioned", 1)) for side in (mine, theirs) if side),
        "first_seen": _first(mine, theirs),
        "last_seen": moment_text(fading.now),
        "decay_state": None,  # it is computed from a confidence that no longer counts
    }
    draft.moments = {"first_seen", "last_seen"}
    done.adopted |= adopted.keys()
    done.drafts["entity", layer, target.id] = draft
    done.wanted["entity", layer, source.id] = None


def _first(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> Any:
    seen = [(moment, side["first_seen"]) for side in (mine, theirs) if (moment := moment_of(side, "first_seen"))]
    return min(seen, key=lambda pair: pair[0])[1] if seen else None


def _aliases(done: Combined, records: Mapping[Key, Image], layer: str, source: Party, target: Party) -> None:
    """The source's id and names lead to the target: what pointed to the source before, and what had its id."""
    lost = records["entity", layer, source.id]
    for key, image in records.items():
        if key[:2] == ("alias", layer) and image["properties"].get("target") == source.id:
            led_on = {**image, "properties": {**image["properties"], "target": target.id}}
            done.wanted[key] = led_on if key[2] != target.id else None
    names = [lost["properties"]["name"], *described(lost)[1]]
    done.aliases |= dict.fromkeys(names)
    for id_, name in {**led(names), source.id: lost["properties"]["name"]}.items():
        key = ("alias", layer, id_)
        taken = id_ == target.id or (id_ != source.id and _is_entity(records, id_)) or key in done.wanted
        held = records.get(key)
        if taken or (held is not None and id_ != source.id):
            continue
        properties = {"id": id_, "name": name, "target": target.id}
        done.wanted[key] = {"labels": ["Alias"], "properties": properties, "moments": []}


def led(names: Iterable[str]) -> dict[str, str]:
    """Ids that names give, each with the first name that gives it."""
    found: dict[str, str] = {}
    for name in names:
        found.setdefault(entity_id(name), name)
    return found


def _is_entity(records: Mapping[Key, Image], id_: str) -> bool:
    return any(key[0] == "entity" and key[2] == id_ for key in records)
