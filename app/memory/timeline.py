"""When a relation holds: asserting, ending, asserting again, in the order of validity and never of arrival.

Pure rules (partition rules 10 and 12) over the relations of one source, read under its lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final, Literal

from app.memory.fading.rest import rest
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
    """Other times in which it held, and what was believed of them (partition rule 12)."""
    decay_state: list[float] | None = None
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


def assert_relation(
    known: dict[Triple, Relation], said: Said, now: datetime, *, mention: float = MENTION, rate: float | None = None
) -> Outcome:
    """Assert one relation among ``known``, which holds every relation that it may meet and is changed in place.

    ``rate`` is what is left of a weight after a day, None where it does not fade.
    """
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
        since = valid_at
    else:
        action = "strengthened"
        if rate is not None:
            relation.weight = rest(relation.weight, relation.last_confirmed, relation.decay_state, rate, now)
        since = _assert_again(relation, valid_at, now, rivals, ordered=said.ends_others)
        relation.weight = said.weight if said.weight > relation.weight else min(1.0, relation.weight + mention)
        relation.last_confirmed, relation.decay_state = now, None
    if said.relation == _CONTRADICTS:
        relation.native = {"detected_date": moment_text(now), "resolved": False} | relation.native
    _describe(relation, said)
    ended = _settle(relation, rivals, since, now) if since is not None else ()
    return Outcome(relation, action, ended)


def _rivals(known: Iterable[Relation], said: Said) -> list[Relation]:
    return [
        other
        for other in known
        if other.source == said.source and other.relation == said.relation and other.target != said.target
    ]


def _assert_again(
    relation: Relation, valid_at: datetime | None, now: datetime, rivals: Sequence[Relation], *, ordered: bool
) -> datetime | None:
    """Apply another assertion of a known relation; since when it puts an end to others, if it does.

    ``valid_at`` is the latest beginning that was told; what held before it without a gap stays in ``past``.
    """
    ended = relation.invalid_at is not None
    if relation.invalid_at is not None and (valid_at is None or valid_at >= relation.invalid_at):
        relation.past = _kept([*relation.past, _interval(relation)], joined=not ordered)
        relation.valid_at = valid_at
        relation.invalid_at = relation.ended_at = None
        relation.ingested_at = now
        return valid_at
    if valid_at is None:
        return None
    if relation.valid_at is None or relation.valid_at <= valid_at:
        if ended and not ordered:
            return None  # said of a time in which it is known to have held
        if relation.valid_at != valid_at:
            earlier = _unbelieved(relation, relation.valid_at, valid_at, relation.ingested_at)
            relation.past = _kept([*relation.past, earlier], joined=not ordered)
            relation.valid_at = valid_at
    elif ordered:
        # Where values follow one another, an older mention must not move the newest one back behind its rivals.
        at = next((place for place, interval in enumerate(relation.past) if _covers(interval, valid_at)), None)
        if at is None:
            until = min(moment for moment in _starts([*rivals, relation]) if moment > valid_at)
            relation.past = _kept([*relation.past, _unbelieved(relation, valid_at, until, now)], joined=False)
        elif relation.past[at]["valid_at"] != (start := moment_text(valid_at)):
            halves = [{**relation.past[at], "invalid_at": start}, {**relation.past[at], "valid_at": start}]
            relation.past = _kept([*relation.past[:at], *halves, *relation.past[at + 1 :]], joined=False)
    elif not ended:
        relation.valid_at = valid_at
    return valid_at


def _interval(relation: Relation) -> dict[str, Any]:
    return {
        "valid_at": moment_text(relation.valid_at),
        "invalid_at": moment_text(relation.invalid_at),
        "ingested_at": moment_text(relation.ingested_at),
        "ended_at": moment_text(relation.ended_at),
        "weight": relation.weight,
    }


def _unbelieved(relation: Relation, start: datetime | None, end: datetime, told: datetime) -> dict[str, Any]:
    """A time in which it held. What was believed to be current is said by the relation itself, never by this."""
    return {
        "valid_at": moment_text(start),
        "invalid_at": moment_text(end),
        "ingested_at": moment_text(told),
        "ended_at": moment_text(told),
        "weight": relation.weight,
    }


def _kept(past: list[dict[str, Any]], *, joined: bool) -> list[dict[str, Any]]:
    """As many intervals as there is room for; those that run on without a gap become one, if need be or ``joined``."""
    at = 0
    while at + 1 < len(past) and (joined or len(past) > _PAST):
        first, second = past[at], past[at + 1]
        if first["ingested_at"] == first["ended_at"] and first["invalid_at"] == second["valid_at"]:
            past[at : at + 2] = [{**second, "valid_at": first["valid_at"]}]
        else:
            at += 1
    return past[-_PAST:]


def _covers(interval: dict[str, Any], moment: datetime) -> bool:
    start, end = stored_moment(interval["valid_at"]), stored_moment(interval["invalid_at"])
    return (start is None or start <= moment) and (end is None or end > moment)


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


def _settle(relation: Relation, rivals: Sequence[Relation], start: datetime, now: datetime) -> tuple[Relation, ...]:
    """Cut what the relation follows at ``start``, and the relation itself where something newer is known already.

    When an end became known stays what it was: a corrected end was none the less known before.
    """
    ended = []
    for rival in rivals:
        for interval in rival.past:
            if _covers(interval, start):
                interval["invalid_at"], rival.changed = moment_text(start), True
        follows = rival.valid_at is None or rival.valid_at <= start
        if follows and (rival.invalid_at is None or rival.invalid_at > start):
            if rival.current:
                ended.append(rival)
            rival.invalid_at, rival.ended_at, rival.changed = start, rival.ended_at or now, True
    later = [moment for moment in _starts(rivals) if moment > start]
    if later and relation.valid_at == start and (relation.invalid_at is None or relation.invalid_at > min(later)):
        relation.invalid_at, relation.ended_at = min(later), relation.ended_at or now
    return tuple(ended)


def _starts(rivals: Iterable[Relation]) -> Iterable[datetime]:
    for rival in rivals:
        if rival.valid_at is not None:
            yield rival.valid_at
        for interval in rival.past:
            start = stored_moment(interval.get("valid_at"))
            if start is not None:
                yield start
