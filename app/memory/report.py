"""What ``graph_relate`` answers: what happened, on the merged records that the caller may see."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.contract import Json
from app.memory.compose import Involved, Stored
from app.memory.moments import moment_text
from app.memory.resolving import Work
from app.memory.timeline import Outcome, Relation

__all__ = ["Step", "report"]


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
) -> Json:
    """The answer. ``locked`` are the copies as they were under the lock, ``also`` more warnings."""
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
        "warnings": [*work.plan.warnings, *_types(work, locked), *also],
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
            "edge": f"{names[relation.source]}→{relation.relation}→{names[relation.target]}",
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
