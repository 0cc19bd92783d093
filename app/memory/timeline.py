"""When a relation holds: asserting, ending, asserting again, in the order of validity and never of arrival.

Pure rules (partition rules 10 and 12) over the relations of one source, read under its lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from app.memory.moments import moment_text, stored_moment

__all__ = ["MENTION", "SINGLE_VALUED", "Outcome", "Relation", "Said", "Triple", "assert_relation"]

SINGLE_VALUED: Final = frozenset({"WORKS_AT", "REPORTS_TO", "LOCATED_IN", "HOSTED_ON", "DEPLOYED_TO"})
"""Relations with one value at a time, unless the tenant has a list of its own or a call says otherwise."""

MENTION: Final = 0.05
"""What being mentioned again adds to a weight that the call does not raise, unless the gateway is set otherwise."""

_CONTRADICTS: Final = "CONTRADICTS"

_PAST: Final = 50

Triple = tuple[str, str, str]


@dataclass(slots=True)
class Relation:
    """One copy of a relation in the write layer, as read under lock and then changed."""

    source: str
    relation: str
    target: str
    weight: float
    ingested_at: datetime
    last_confirmed: datetime
    valid_at: datetime | None = None
    invalid_at: datetime | None = None
    ended_at: datetime | None = None
    evidence: str | None = None
    native: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)
    past: list[dict[str, Any]] = field(default_factory=list)
    changed: bool = False
    new: bool = False
    """Whether it is not stored yet."""

    @property
    def triple(self) -> Triple:
        """What makes it this relation and no other."""
        return (self.source, self.relation, self.target)

    @property
    def current(self) -> bool:
        """Whether it holds."""
        return self.invalid_at is None


@dataclass(frozen=True, slots=True)
class Said:
    """What a call says about one relation; ``source`` and ``target`` are entity ids."""

    source: str
    relation: str
    target: str
    weight: float
    valid_at: datetime | None = None
    supersede: bool | None = None
    exclusive: bool = False
    """Whether the relation has one target at a time (a rule of the tenant)."""
    evidence: str | None = None
    native: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def triple(self) -> Triple:
        """The relation that is meant."""
        return (self.source, self.relation, self.target)

    @property
    def ends_others(self) -> bool:
        """Whether other targets of the same source and relation are rivals."""
        if self.supersede is None:
            return self.exclusive and self.valid_at is not None
        return self.supersede


@dataclass(frozen=True, slots=True)
class Outcome:
    """What asserting did: the relation as it is now, and the ones that stopped holding."""

    relation: Relation
    action: Literal["created", "strengthened"]
    ended: tuple[Relation, ...]


def assert_relation(known: dict[Triple, Relation], said: Said, now: datetime, *, mention: float = MENTION) -> Outcome:
    """Assert one relation among ``known``, which holds every relation that it may meet and is changed in place."""
    valid_at = said.valid_at
    if said.supersede and valid_at is None:
        valid_at = now
    rivals = _rivals(known.values(), said) if said.ends_others else []
    relation = known.get(said.triple)
    if relation is None:
        relation = Relation(
            *said.triple, weight=said.weight, ingested_at=now, last_confirmed=now, valid_at=valid_at, new=True
        )
        known[said.triple] = relation
        action: Literal["created", "strengthened"] = "created"
        holds = True
    else:
        action = "strengthened"
        holds = _assert_again(relation, valid_at, now, ordered=said.ends_others)
        relation.weight = said.weight if said.weight > relation.weight else min(1.0, relation.weight + mention)
        relation.last_confirmed = now
    if said.relation == _CONTRADICTS:
        relation.native = {"detected_date": moment_text(now), "resolved": False} | relation.native
    _describe(relation, said)
    ended = _settle(relation, rivals, now) if holds and relation.valid_at is not None else ()
    return Outcome(relation, action, ended)


def _rivals(known: Iterable[Relation], said: Said) -> list[Relation]:
    return [
        other
        for other in known
        if other.source == said.source and other.relation == said.relation and other.target != said.target
    ]


def _assert_again(relation: Relation, valid_at: datetime | None, now: datetime, *, ordered: bool) -> bool:
    """Apply another assertion of a known relation; whether it opened or moved the time in which it holds."""
    if relation.invalid_at is None:
        if valid_at is None:
            return False
        # Where values follow one another, an older mention must not move the newest one back behind its rivals.
        if not (ordered and relation.valid_at is not None and relation.valid_at > valid_at):
            relation.valid_at = valid_at
        return True
    if valid_at is not None and valid_at < relation.invalid_at:
        return False  # said of a time before its end: nothing new about when it holds
    relation.past = [*relation.past, _interval(relation)][-_PAST:]
    relation.valid_at = valid_at
    relation.invalid_at = relation.ended_at = None
    relation.ingested_at = now
    return True


def _interval(relation: Relation) -> dict[str, Any]:
    return {
        "valid_at": moment_text(relation.valid_at),
        "invalid_at": moment_text(relation.invalid_at),
        "ingested_at": moment_text(relation.ingested_at),
        "ended_at": moment_text(relation.ended_at),
        "weight": relation.weight,
    }


def _describe(relation: Relation, said: Said) -> None:
    relation.changed = True
    relation.evidence = said.evidence or relation.evidence
    relation.native |= said.native
    for name, value in said.extra.items():
        relation.native[name] = None  # the same name may have been native before, as a plain value
        relation.extra[name] = value
    for name, value in said.native.items():
        relation.extra.pop(name, None)
        if value is None:
            relation.native[name] = None


def _settle(relation: Relation, rivals: Sequence[Relation], now: datetime) -> tuple[Relation, ...]:
    """Cut what the relation follows, and the relation itself where something newer is known already."""
    start = relation.valid_at
    assert start is not None  # noqa: S101 - the caller's condition, for the type checker
    ended = []
    for rival in rivals:
        follows = rival.valid_at is None or rival.valid_at <= start
        if follows and (rival.invalid_at is None or rival.invalid_at > start):
            if rival.current:
                ended.append(rival)
            rival.invalid_at, rival.ended_at, rival.changed = start, now, True
    later = [moment for moment in _starts(rivals) if moment > start]
    if later:
        relation.invalid_at, relation.ended_at = min(later), now
    return tuple(ended)


def _starts(rivals: Iterable[Relation]) -> Iterable[datetime]:
    for rival in rivals:
        if rival.valid_at is not None:
            yield rival.valid_at
        for interval in rival.past:
            start = stored_moment(interval.get("valid_at"))
            if start is not None:
                yield start
