"""What a source says, gathered by entity and relation under the rules of ``graph_relate``; nothing is written yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from app.errors import InvalidInput
from app.graph.identity import clean_name, entity_id
from app.graph.vocabulary import ENTITY_PROPERTIES, RELATION_PROPERTIES, relation_name, split_properties, type_name
from app.memory.compose import Involved
from app.memory.moving.sources import Bad, Found, Said, Thing
from app.memory.plan import ALIAS_OF, Mention
from app.memory.timeline import Said as Assertion

__all__ = ["Gathered", "Known", "Told", "gather"]

_DEFAULT_CONFIDENCE: Final = 0.5
_EVIDENCE: Final = 200
"""Pieces of evidence of one entity that are looked at; 16 KiB of them are kept."""


@dataclass(frozen=True, slots=True)
class Known:
    """What the tenant calls an id: the entity that it means there."""

    id: str
    name: str
    type: str
    confidence: float


@dataclass(slots=True)
class Told:
    """One relation: names as the source has them, and what is asserted once they are resolved."""

    said: Said
    ends: tuple[str, str]
    """Ids that the names alone give."""
    assertion: Assertion


@dataclass(slots=True)
class Gathered:
    """A whole source."""

    involved: dict[str, Involved] = field(default_factory=dict)
    """Entities by the id that their name gives."""
    things: dict[str, Thing] = field(default_factory=dict)
    """What the source says of when an entity was seen, by the same id."""
    told: list[Told] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    names: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Id and display name by name: most are read several times."""

    def named(self, name: str) -> tuple[str, str]:
        """Id and display name of what a source calls ``name``.

        Raises:
            InvalidInput: it is no name.
        """
        known = self.names.get(name)
        if known is None:
            known = self.names[name] = entity_id(name), clean_name(name)
        return known

    def ids(self) -> list[str]:
        """Every id that is named, sorted."""
        return sorted({*self.involved, *(end for told in self.told for end in told.ends)})

    def resolve(self, known: Mapping[str, Known]) -> None:
        """Put what the tenant knows in the place of names; what leads nowhere becomes bad."""
        described = self.involved
        self.involved = {}
        self.things = {known[id_].id if id_ in known else id_: thing for id_, thing in self.things.items()}
        for id_, entry in described.items():
            found = self._entry(id_, known, entry)
            found.mentions += entry.mentions
            found.spellings += entry.spellings
        kept = []
        for told in self.told:
            lost = next((end for end in told.ends if end not in known and end not in described), None)
            ends = tuple(known[end].id if end in known else end for end in told.ends)
            if lost is not None:
                self.bad.append(Bad(told.said.line, "an end is described nowhere and known by no name"))
            elif ends[0] == ends[1]:
                self.bad.append(Bad(told.said.line, "both ends are one entity"))
            else:
                told.assertion = replace(told.assertion, source=ends[0], target=ends[1])
                kept.append(told)
                self._attach(told, known)
        self.told = kept

    def _attach(self, told: Told, known: Mapping[str, Known]) -> None:
        entries = [self._entry(end, known, None) for end in told.ends]
        for entry, text, end in zip(entries, (told.said.source, told.said.target), told.ends, strict=True):
            if told.assertion.evidence and len(entry.evidence) < _EVIDENCE:
                entry.evidence.append(told.assertion.evidence)
            if entry.id == end and text not in entry.spellings:
                entry.spellings.append(clean_name(text))
        if told.assertion.relation == ALIAS_OF:
            entries[1].spellings.append(clean_name(told.said.source))

    def _entry(self, id_: str, known: Mapping[str, Known], described: Involved | None) -> Involved:
        shown = known.get(id_)
        meant = shown.id if shown else id_
        if meant not in self.involved:
            if shown is not None:
                self.involved[meant] = Involved(meant, shown.name, shown.type, shown.confidence)
            elif described is not None:
                self.involved[meant] = Involved(meant, described.name, described.type, described.confidence)
            else:
                raise KeyError(id_)
        return self.involved[meant]


def gather(found: Iterable[Found], single_valued: frozenset[str]) -> Gathered:
    """Read a source to its end; what breaks a rule stands among the bad lines."""
    gathered = Gathered()
    for one in found:
        try:
            if isinstance(one, Bad):
                gathered.bad.append(one)
            elif isinstance(one, Thing):
                _thing(gathered, one)
            else:
                _said(gathered, one, single_valued)
        except InvalidInput as error:
            gathered.bad.append(Bad(one.line, error.message.removesuffix(" Nothing was applied.")))
    return gathered


def _thing(gathered: Gathered, thing: Thing) -> None:
    (id_, name), type_ = gathered.named(thing.name), type_name(thing.type)
    native, extra = split_properties(thing.properties, ENTITY_PROPERTIES)
    confidence = _DEFAULT_CONFIDENCE if thing.confidence is None else thing.confidence
    entry = gathered.involved.setdefault(id_, Involved(id_, name, type_, confidence))
    if native or extra or not entry.mentions or thing.confidence is not None:
        entry.mentions.append(Mention(id_, name, type_, confidence, thing.confidence, native, extra))
    entry.spellings += [each for each in (name, *thing.aliases) if each not in entry.spellings]
    gathered.things.setdefault(id_, thing)


def _said(gathered: Gathered, said: Said, single_valued: frozenset[str]) -> None:
    native, extra = split_properties(said.properties, RELATION_PROPERTIES)
    relation = relation_name(said.relation)
    ends = gathered.named(said.source)[0], gathered.named(said.target)[0]
    gathered.told.append(
        Told(
            said,
            ends,
            Assertion(
                *(ends[0], relation, ends[1], min(1.0, max(0.0, said.weight))),
                valid_at=said.valid_at,
                # What a source ended itself was not ended by what came after it.
                supersede=False if said.invalid_at is not None else None,
                exclusive=relation in single_valued,
                evidence=" ".join(said.evidence.split()) if said.evidence else None,
                native=native | said.provenance,
                extra=extra,
            ),
        )
    )
