"""What ``graph_relate`` answers: what happened, on the merged records that the caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from app.contract import Json
from app.memory.compose import Involved, Stored
from app.memory.moments import moment_text
from app.memory.resolving import Work
from app.memory.timeline import Outcome, Relation, Said

__all__ = ["Step", "report"]

_NAMED: Final = 5


@dataclass(frozen=True, slots=True)
class Step:
    """One relation as asserted, with the tenant-wide copy that the caller sees beside it."""

    outcome: Outcome
    wide: Relation | None

    @property
    def action(self) -> str:
        """``created`` only if the caller could not see this relation before."""
        return "strengthened" if self.wide is not None else self.outcome.action

    @property
    def shown(self) -> Relation:
        """The copy that stands for the merged relation (partition rule 5)."""
        own = self.outcome.relation
        if self.wide is None or (own.current and not self.wide.current):
            return own
        if self.wide.current and not own.current:
            return self.wide
        return max((self.wide, own), key=lambda copy: copy.weight)


def report(
    work: Work,
    involved: Mapping[str, Involved],
    locked: Mapping[str, Stored],
    steps: Sequence[Step],
    also: Sequence[str],
    now: datetime,
) -> Json:
    """The answer. ``locked`` are the copies as they were under the lock at ``now``, ``also`` more warnings."""
    created = {id_ for id_ in involved if work.known[id_].wide is None and locked[id_].times_mentioned == 0}
    names = {id_: (work.known[id_].wide or locked[id_]).name for id_ in involved}
    answer: Json = {
        "created_entities": [names[id_] for id_ in sorted(created)],
        "entities_created": len(created),
        "entities_merged": len(involved) - len(created),
        "edges_created": sum(step.action == "created" for step in steps),
        "edges_strengthened": sum(step.action != "created" for step in steps),
        "edges_failed": 0,
        "failed_refs": [],
        "superseded": _superseded(steps),
        "warnings": [*work.plan.warnings, *_types(work, locked), *_to_come(work, names, now), *also],
    }
    if work.plan.single:
        return _single(steps[0]) | answer
    return answer | {"details": _details(work, names, created, steps)}


def _single(step: Step) -> Json:
    relation = step.shown
    return {
        "action": step.action,
        "edge": {
            "from": relation.source,
            "to": relation.target,
            "type": relation.relation,
            "weight": relation.weight,
            "valid_at": moment_text(relation.valid_at),
            "invalid_at": moment_text(relation.invalid_at),
        },
    }


def _details(work: Work, names: Mapping[str, str], created: set[str], steps: Sequence[Step]) -> list[dict[str, Any]]:
    described = list(dict.fromkeys(work.ids[mention.id] for mention in work.plan.mentions))
    entities = [{"entity": names[id_], "action": "created" if id_ in created else "merged"} for id_ in described]
    edges = [
        {
            "edge": _named(relation, names),
            "action": step.action,
            "weight": step.shown.weight,
        }
        for step in steps
        for relation in (step.outcome.relation,)
    ]
    return [*entities, *edges]


def _superseded(steps: Sequence[Step]) -> list[dict[str, Any]]:
    ended = {relation.triple: relation for step in steps for relation in step.outcome.ended}
    return [
        {"from": source, "to": target, "type": verb, "invalid_at": moment_text(relation.invalid_at)}
        for (source, verb, target), relation in sorted(ended.items())
    ]


def _types(work: Work, locked: Mapping[str, Stored]) -> list[str]:
    warnings = []
    for mention in work.plan.mentions:
        id_ = work.ids[mention.id]
        held = (work.known[id_].wide or locked[id_]).type
        if held != mention.type:
            warnings.append(
                f"{mention.name} is a {held}; an entity keeps its first type, {mention.type} was not applied."
            )
    return list(dict.fromkeys(warnings))


def _to_come(work: Work, names: Mapping[str, str], now: datetime) -> list[str]:
    """A warning for each relation that is said to begin after ``now``; what is beyond a few is counted."""
    begins = {said.triple: said for said in work.said if said.valid_at is not None and said.valid_at > now}
    warnings = [
        f"{_named(said, names)} begins in the future ({moment_text(said.valid_at)}) and counts as current from now on; "
        "what it replaced is found with as_of."
        for said in list(begins.values())[:_NAMED]
    ]
    if len(begins) > _NAMED:
        warnings.append(
            f"{len(begins) - _NAMED} more relations begin in the future: for each of them the same is true."
        )
    return warnings


def _named(relation: Relation | Said, names: Mapping[str, str]) -> str:
    return f"{names[relation.source]}→{relation.relation}→{names[relation.target]}"
