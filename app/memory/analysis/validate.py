"""``graph_validate``: what in the memory may be wrong: one pass over merged entities and one over relations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.contract import Call, Cursor
from app.memory.analysis.clock import Clock, in_thread
from app.memory.analysis.naming import alike_key, is_generic, is_meaningless, leading_reference
from app.memory.analysis.queries import JUDGED, TYPED_ENDS
from app.memory.analysis.schemas import ValidateInput
from app.memory.shapes import fitting
from app.store.database import Database, TenantSession

__all__ = ["validate"]

_PAGE: Final = 5_000
_MOST: Final = 5_000
"""Relations with ends of an unexpected type that one call looks at."""
_CLIP: Final = 120
_EVERY: Final = 50
"""Names after which the clock is looked at."""
_NARROWER: Final = "ask for fewer layers"
_RANKS: Final = ("high", "medium", "low")

_PEOPLE: Final = ("Person",)
_ACTORS: Final = ("Person", "Organization", "Project")
# (relation, types of its source, types of its target); an empty list: any.
_RULES: Final = (
    ("WORKS_AT", _PEOPLE, ("Organization", "Project")),
    ("REPORTS_TO", _PEOPLE, ("Person", "Organization")),
    ("FAMILY_OF", _PEOPLE, _PEOPLE),
    ("MENTOR_OF", _PEOPLE, _PEOPLE),
    ("COLLABORATES_WITH", _ACTORS, _ACTORS),
    ("WORKS_ON", _ACTORS, ()),
    ("KNOWS", _ACTORS, ()),
    ("PREFERS", _ACTORS, ()),
    ("STAKEHOLDER_IN", _ACTORS, ()),
    ("PARTICIPATED_IN", _ACTORS, ()),
    ("AUTHORED", _ACTORS, ()),
)
"""Relations that say what stands at their ends."""

_CERTAIN: Final = 0.99
_FORGOTTEN: Final = 0.05
_DOUBTFUL: Final = 0.5
"""Confidence up to which an entity without relations is one to look at: what a mention alone gives."""


@dataclass(frozen=True, slots=True)
class _Entity:
    """A merged entity as the checks see it."""

    id: str
    name: str
    type: str
    types: Sequence[str]
    most: Any
    least: Any
    mentioned: int
    subtype: str
    related: int
    told: int


@dataclass(frozen=True, slots=True)
class _Issue:
    entity: _Entity
    type: str
    severity: str
    words: str
    other: str | None = None

    @property
    def place(self) -> tuple[float, str, str]:
        """Where it stands in the list: gravest first."""
        return (float(_RANKS.index(self.severity)), self.type, f"{self.entity.id} {self.other or ''}")


async def validate(database: Database, call: Call, arguments: ValidateInput) -> Mapping[str, Any]:
    """Answer ``graph_validate``.

    Raises:
        InvalidInput: a cursor of another question.
        CallError: what the store raises.
    """
    after = None
    if arguments.cursor:
        after = Cursor.decode(arguments.cursor, call.scope, _question(arguments), (float, str, str)).position
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    known = await _entities(session, call, arguments.source_session)
    mistyped = await _mistyped(session, known)
    return await in_thread(Clock(call.deadline, _NARROWER), _answer, known, mistyped, after, call, arguments)


def _answer(
    clock: Clock,
    known: Mapping[str, _Entity],
    mistyped: Sequence[_Issue],
    after: tuple[Any, ...] | None,
    call: Call,
    arguments: ValidateInput,
) -> Mapping[str, Any]:
    """What the checks find, one page of it."""
    issues = [*_alone(clock, known.values()), *mistyped, *_alike(clock, known.values())]
    issues.sort(key=lambda issue: issue.place)
    rest = [issue for issue in issues if after is None or issue.place > after]
    shown = [_shown(issue) for issue in rest[: arguments.max_issues]]
    shown = shown[: fitting(shown)]
    answer: dict[str, Any] = {
        "issue_count": len(issues),
        "total_issues": len(issues),
        "by_severity": {rank: sum(issue.severity == rank for issue in issues) for rank in _RANKS},
        "by_type": dict(sorted(Counter(issue.type for issue in issues).items())),
        "scope": "full graph" if arguments.source_session is None else f"session:{arguments.source_session}",
        "issues": shown,
        "truncated": len(mistyped) >= _MOST,
    }
    if len(shown) < len(rest):
        answer["next_cursor"] = Cursor(rest[len(shown) - 1].place).encode(call.scope, _question(arguments))
    return answer


def _question(arguments: ValidateInput) -> dict[str, Any]:
    return arguments.model_dump(exclude={"cursor", "layers", "max_issues"})


async def _entities(session: TenantSession, call: Call, thread: str | None) -> dict[str, _Entity]:
    known: dict[str, _Entity] = {}
    after = ""
    while True:
        rows = await session.read(JUDGED, after=after, limit=_PAGE, thread=thread)
        page = [_Entity(*entry) for row in rows for entry in row["rows"]]
        known.update((entity.id, entity) for entity in page)
        if len(page) < _PAGE:
            return known
        after = page[-1].id
        await call.progress(len(known), None, "entities read")


async def _mistyped(session: TenantSession, known: Mapping[str, _Entity]) -> list[_Issue]:
    rows = await session.read(
        TYPED_ENDS, types=[rule[0] for rule in _RULES], rules=[list(map(_plain, rule)) for rule in _RULES], most=_MOST
    )
    wanted = {relation: (sources, targets) for relation, sources, targets in _RULES}
    found: dict[tuple[str, str], _Issue] = {}
    for source, source_name, source_type, relation, target, target_name, target_type in rows[0]["rows"]:
        sources, targets = wanted[relation]
        ends = (
            (source, source_type, sources, f"{relation} {_clip(target_name)}", "from"),
            (target, target_type, targets, f"{_clip(source_name)} {relation}", "to"),
        )
        for id_, type_, expected, words, way in ends:
            entity = known.get(id_)
            if expected and type_ not in expected and entity is not None and entity.told:
                text = f"{words}: {relation} goes {way} {' or '.join(expected)}, this is a {type_}"
                found.setdefault((id_, relation), _Issue(entity, "type_mismatch", "medium", text, None))
    return list(found.values())


def _alone(clock: Clock, entities: Iterable[_Entity]) -> Iterator[_Issue]:
    """What an entity shows by itself."""
    for number, entity in enumerate(entities):
        if number % _EVERY == 0:
            clock.check()
        if not entity.told:
            continue
        if is_generic(entity.name):
            yield _Issue(entity, "generic_name", "high", f"the name {_clip(entity.name)!r} could mean anything")
        if is_meaningless(entity.name):
            yield _Issue(entity, "meaningless_name", "high", "the name is too short and holds no letter")
        word = leading_reference(entity.name)
        if word is not None:
            yield _Issue(
                entity, "reference_language", "high", f"the name starts with {word!r}: it points at something unnamed"
            )
        if len(entity.types) > 1:
            others = ", ".join(sorted(set(entity.types) - {entity.type})[:5])
            yield _Issue(entity, "type_mismatch", "medium", f"a {entity.type} here, in other layers: {others}")
        yield from _confidence(entity)
        doubtful = entity.most is None or (isinstance(entity.most, int | float) and entity.most <= _DOUBTFUL)
        if not entity.related and doubtful and entity.mentioned <= 1 and entity.subtype != "rule":
            yield _Issue(entity, "orphan", "low", "mentioned once, and related to nothing")


def _confidence(entity: _Entity) -> Iterator[_Issue]:
    held = [value for value in (entity.least, entity.most) if value is not None]
    if any(not isinstance(value, int | float) or not 0 <= value <= 1 for value in held):
        yield _Issue(entity, "extreme_confidence", "high", "confidence is no number from 0 to 1")
    elif held and entity.subtype != "rule":
        if entity.most >= _CERTAIN and entity.mentioned <= 1:
            words = f"confidence {entity.most:.2f} after a single mention"
            yield _Issue(entity, "extreme_confidence", "low", words)
        elif entity.most <= _FORGOTTEN and entity.related:
            words = f"confidence {entity.most:.2f}, though it is related to others"
            yield _Issue(entity, "extreme_confidence", "low", words)


def _alike(clock: Clock, entities: Iterable[_Entity]) -> list[_Issue]:
    """Entities whose names differ in case, separators or accents alone: grouped by what they share, never paired."""
    groups: dict[str, list[_Entity]] = {}
    for number, entity in enumerate(entities):
        if number % _EVERY == 0:
            clock.check()
        groups.setdefault(alike_key(entity.name), []).append(entity)
    issues = []
    for group in groups.values():
        first = min(group, key=lambda entity: entity.id)
        told = any(entity.told for entity in group)
        for entity in sorted(group, key=lambda entity: entity.id):
            if entity is not first and told:
                words = f"near-duplicate: nearly the same name as {_clip(first.id)} ({first.type})"
                issues.append(_Issue(entity, "near_duplicate", "medium", words, first.id))
    return issues


def _shown(issue: _Issue) -> dict[str, Any]:
    shown = {
        "entity_id": issue.entity.id,
        "name": _clip(issue.entity.name),
        "type": issue.type,
        "entity_type": issue.entity.type,
        "description": issue.words,
        "issue": issue.words,
        "severity": issue.severity,
    }
    return shown | ({"other_id": issue.other} if issue.other else {})


def _plain(part: Any) -> Any:
    return list(part) if isinstance(part, tuple) else part


def _clip(text: str) -> str:
    return text if len(text) <= _CLIP else f"{text[:_CLIP]}…"
