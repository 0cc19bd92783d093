"""What a call of ``graph_relate`` says, checked, in one form for a single relation and a batch. Nothing is read yet."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.errors import InvalidInput
from app.graph.identity import clean_name, entity_id
from app.graph.vocabulary import ENTITY_PROPERTIES, RELATION_PROPERTIES, relation_name, split_properties, type_name
from app.memory.schemas import Batch, BatchEntity, RelateInput
from app.memory.timeline import SINGLE_VALUED, Said

__all__ = ["ALIAS_OF", "Mention", "Plan", "Reference", "plan_of"]

ALIAS_OF: Final = "ALIAS_OF"

_DEFAULT_CONFIDENCE: Final = 0.5
_SINGLE: Final = ("from_name", "from_type", "to_name", "to_type", "relation")
_SINGLE_EXAMPLE: Final = (
    '{"from_name": "Alice", "from_type": "Person", "relation": "WORKS_ON", '
    '"to_name": "Project X", "to_type": "Project"}'
)


@dataclass(slots=True)
class Mention:
    """An entity that the call describes: created if it is new, mentioned again if not."""

    id: str
    """The id that the name alone gives; an alias may lead elsewhere."""
    name: str
    type: str
    confidence: float
    """Of a new entity."""
    least: float | None = None
    """Confidence that the call states, which a known entity rises to."""
    native: dict[str, Any] = field(default_factory=dict)
    extra: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Reference:
    """One end of a relation as the call names it."""

    text: str
    id: str
    described: bool
    """Whether the call describes this entity; otherwise it must exist."""


@dataclass(slots=True)
class Plan:
    """A checked call. ``relations`` are (from, to, what is said with the two ids as yet unresolved)."""

    single: bool
    single_valued: frozenset[str]
    mentions: list[Mention] = field(default_factory=list)
    relations: list[tuple[Reference, Reference, Said]] = field(default_factory=list)
    provenance: dict[str, Any] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def ids(self) -> list[str]:
        """Every id that the call names, sorted."""
        named = {mention.id for mention in self.mentions}
        for source, target, _ in self.relations:
            named |= {source.id, target.id}
        return sorted(named)


def plan_of(arguments: RelateInput, single_valued: frozenset[str] = SINGLE_VALUED) -> Plan:
    """Check the arguments and bring both modes into one form; ``single_valued`` are the tenant's own.

    Raises:
        InvalidInput: a rule is broken; the message names the field and a correct example.
    """
    if arguments.batch is not None:
        return _batch_plan(arguments.batch, single_valued)
    return _single_plan(arguments, single_valued)


def _single_plan(arguments: RelateInput, single_valued: frozenset[str]) -> Plan:
    missing = [name for name in _SINGLE if getattr(arguments, name) is None]
    if missing:
        raise InvalidInput(
            "Single mode requires from_name, from_type, to_name, to_type, and relation; missing: "
            f"{', '.join(missing)}. Example: {_SINGLE_EXAMPLE}. For several at once use batch. Nothing was applied.",
            field=missing[0],
        )
    plan = Plan(True, single_valued, provenance=_provenance(arguments))
    weight = _unit(arguments.weight, "weight", plan.warnings)
    ends = []
    for side in ("from", "to"):
        mention = _mention(getattr(arguments, f"{side}_name"), getattr(arguments, f"{side}_type"), f"{side}_", weight)
        mention.least = weight
        plan.mentions.append(mention)
        ends.append(Reference(mention.name, mention.id, described=True))
    _relate(plan, (ends[0], ends[1]), arguments, weight, "")
    return plan


def _batch_plan(batch: Batch, single_valued: frozenset[str]) -> Plan:
    if not batch.entities and not batch.relations:
        raise InvalidInput("batch has neither entities nor relations; give at least one.", field="batch")
    plan = Plan(False, single_valued, provenance=_provenance(batch))
    local: dict[str, Mention] = {}
    for number, entity in enumerate(batch.entities):
        mention = _batch_mention(entity, f"batch.entities[{number}].", plan.warnings)
        plan.mentions.append(mention)
        if entity.localId is not None and local.setdefault(entity.localId, mention).id != mention.id:
            raise InvalidInput(
                f"batch.entities[{number}].localId: two entities have this localId; give each its own. "
                "Nothing was applied.",
                field="batch",
            )
    described = {mention.id for mention in plan.mentions}
    for number, relation in enumerate(batch.relations):
        where = f"batch.relations[{number}]."
        ends = (
            _reference(relation.source, local, described, f"{where}from"),
            _reference(relation.target, local, described, f"{where}to"),
        )
        _relate(plan, ends, relation, _unit(relation.weight, f"{where}weight", plan.warnings), where)
    return plan


def _batch_mention(entity: BatchEntity, where: str, warnings: list[str]) -> Mention:
    properties = dict(entity.properties)
    stated = properties.pop("confidence", None)
    mention = _mention(entity.name, entity.type, where, _DEFAULT_CONFIDENCE)
    if stated is not None:
        if isinstance(stated, bool) or not isinstance(stated, int | float):
            raise InvalidInput(f"{where}properties.confidence is a number from 0 to 1, for example 0.7.", field="batch")
        mention.confidence = mention.least = _unit(float(stated), f"{where}properties.confidence", warnings)
    mention.native, mention.extra = _properties(properties, ENTITY_PROPERTIES, where)
    return mention


def _mention(name: str, type_: str, where: str, confidence: float) -> Mention:
    with _naming(f"{where}name"):
        return Mention(entity_id(name), clean_name(name), type_name(type_, field=f"{where}type"), confidence)


def _reference(text: str, local: Mapping[str, Mention], described: set[str], where: str) -> Reference:
    if text in local:
        return Reference(local[text].name, local[text].id, described=True)
    with _naming(where):
        id_ = entity_id(text)
        return Reference(clean_name(text), id_, described=id_ in described)


def _relate(plan: Plan, ends: tuple[Reference, Reference], said: Any, weight: float, where: str) -> None:
    native, extra = _properties(said.properties, RELATION_PROPERTIES, where)
    relation = relation_name(said.relation, field=f"{where}relation")
    if ends[0].id == ends[1].id:
        raise InvalidInput(
            f"{where or 'from_name, to_name: '}{ends[0].text!r} and {ends[1].text!r} are one entity; a "
            "relation needs two. (Other spellings of a name are remembered by themselves.) Nothing was applied.",
            field=f"{where}to" if where else "to_name",
        )
    evidence = " ".join(said.evidence.split()) if said.evidence else None
    plan.relations.append(
        (
            *ends,
            Said(
                *(ends[0].id, relation, ends[1].id, weight),
                valid_at=said.valid_at,
                supersede=said.supersede,
                exclusive=relation in plan.single_valued,
                evidence=evidence or None,
                native=native | plan.provenance,
                extra=extra,
            ),
        )
    )


def _properties(given: Mapping[str, Any], known: frozenset[str], where: str) -> tuple[dict[str, Any], dict[str, Any]]:
    return split_properties(given, known, field=f"{where}properties")


def _provenance(given: RelateInput | Batch) -> dict[str, Any]:
    values = {name: getattr(given, name) for name in ("source_session", "source_transcript", "source_type")}
    return {name: value for name, value in values.items() if value is not None}


def _unit(value: float, where: str, warnings: list[str]) -> float:
    """Bring a weight into [0, 1] and say so."""
    if not math.isfinite(value):
        raise InvalidInput(f"{where} is a number from 0 to 1, for example 0.7. Nothing was applied.", field="weight")
    clamped = min(1.0, max(0.0, value))
    if clamped != value:
        warnings.append(f"{where} {value:g} is outside 0..1 and was stored as {clamped:g}.")
    return clamped


class _naming:  # noqa: N801 - reads as a clause of the `with`
    """Says which argument a refused name came from."""

    def __init__(self, where: str) -> None:
        self._where = where

    def __enter__(self) -> None:
        return None

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, InvalidInput) and error.field is None:
            raise InvalidInput(f"{self._where}: {error.message} Nothing was applied.", field=self._where) from error
