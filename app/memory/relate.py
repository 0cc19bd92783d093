"""``graph_relate``: one relation or a batch, written in one transaction.

Read what is known (one round trip), embed what is new, then lock, decide and write (two statements). What was decided
before the lock is decided again under it; if a text to embed has changed meanwhile, the whole is done again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.context import TenantRules
from app.contract import Call, Json
from app.embedding.provider import Embedder
from app.errors import Conflict, InvalidInput
from app.memory.census import Census, Tally
from app.memory.compose import (
    EntityWrite,
    Involved,
    Stored,
    compose_entity,
    relation_fields,
    stored_entity,
    stored_relation,
)
from app.memory.evidence import Searched, evidence_notes
from app.memory.plan import plan_of
from app.memory.queries import LOCK, WRITE
from app.memory.report import Step, report
from app.memory.resolving import Work, resolved, writing_scope
from app.memory.schemas import RelateInput
from app.memory.timeline import SINGLE_VALUED, Relation, Triple, assert_relation
from app.memory.vectors import NO_VECTOR, Vectors
from app.settings import MemorySettings
from app.store.database import Database, Idempotency, Writing
from app.store.undo import DEFAULT_RETENTION, Recording, Retention

__all__ = ["relate"]

_NAMED: Final = 5
_ATTEMPTS: Final = 3
"""Times that texts are embedded before a slightly older vector is accepted."""


class _Changed(Exception):
    """Somebody wrote to these entities between our reading and our lock; nothing was applied."""

    def __init__(self, passages: set[str]) -> None:
        super().__init__()
        self.passages = passages


class _Gone(Exception):
    """An entity that was known went between our reading and our lock, perhaps into another; nothing was applied."""


async def relate(
    database: Database,
    embedder: Embedder,
    census: Census,
    call: Call,
    arguments: RelateInput,
    memory: MemorySettings,
    *,
    retention: Retention = DEFAULT_RETENTION,
) -> Mapping[str, Any]:
    """Create or strengthen relations, and the entities at their ends; what has faded fades first.

    Where older relations end by it, that can be undone for the days of ``retention``.

    Raises:
        InvalidInput: a rule is broken or a reference leads nowhere; nothing was applied.
        Conflict: what it writes to is deleted again and again.
        QuotaExceeded: the tenant holds all it may.
        CallError: what the store raises, with what is known of the outcome.
    """
    rules = call.principal.rules
    single_valued = SINGLE_VALUED if rules.single_valued is None else rules.single_valued
    if arguments.batch is None:
        plan = plan_of(arguments, single_valued)
    else:  # 1,500 long names are a second of looking at letters: other calls get their turn
        plan = await asyncio.to_thread(plan_of, arguments, single_valued)
    session = database.session(writing_scope(call.scope), deadline=call.deadline, request_id=call.request_id)
    tally = await census.of(call.scope.tenant, call.principal.tenant_layers | set(call.scope.layers))
    key = arguments.idempotency_key
    idempotency = None if key is None else Idempotency(key, call.tool, call.arguments_digest)
    work = await resolved(session, plan, memory)
    vectors = Vectors(embedder, call.deadline)
    recording = Recording(session.scope, call.tool, retention)
    before = await _composed([(work.known[id_].own, entry) for id_, entry in work.involved().items()], vectors.key)
    await vectors.add(entity.passage for entity in before if not entity.embedded)
    for attempt in range(_ATTEMPTS):
        last = attempt == _ATTEMPTS - 1
        layer = session.scope.write_layer or ""
        writer = _Writer(work, vectors, census, tally, rules, recording, layer=layer, memory=memory, final=last)
        try:
            answer = await session.write(writer.run, idempotency=idempotency)
        except _Changed as change:
            await vectors.add(change.passages)
            continue
        except _Gone:
            work = await resolved(session, plan, memory)
            continue
        writer.count()
        return answer
    raise Conflict("Other calls keep deleting what this one writes to. Nothing was applied; try again.")


@dataclass(frozen=True, slots=True)
class _Growth:
    """What a run adds to the partition."""

    entities: int
    relations: int
    types: set[str]
    verbs: set[str]


class _Writer:
    """One attempt. ``run`` may be called several times; what the last run added is counted once it is committed."""

    def __init__(
        self,
        work: Work,
        vectors: Vectors,
        census: Census,
        tally: Tally,
        rules: TenantRules,
        recording: Recording,
        *,
        layer: str,
        memory: MemorySettings,
        final: bool,
    ) -> None:
        self._rules = rules
        self._recording = recording
        self._work = work
        self._vectors = vectors
        self._census = census
        self._tally = tally
        self._layer = layer
        self._memory = memory
        self._final = final
        self._growth: _Growth | None = None
        self._new_relations = 0

    async def run(self, writing: Writing) -> Json:
        """Lock, decide, write; the answer."""
        work = self._work
        if work.unresolved:
            raise _unresolved(work.unresolved)
        now = datetime.now(UTC)
        involved = work.involved()
        locked = (await writing.run(LOCK, now=now, **self._asked(involved)))[0]
        if any(row["id"] is None for row in locked["ends"]):  # deleted while this waited for its lock
            raise _Gone
        own = {entity.id: entity for entity in (stored_entity("", row["properties"]) for row in locked["ends"])}
        rules = {id_ for id_, entity in own.items() if entity.is_rule or work.known[id_].is_rule}
        own |= {id_: entity.faded(self._memory, now) for id_, entity in own.items() if id_ not in rules}
        if not self._final and any(work.known[id_].own and not own[id_].times_mentioned for id_ in involved):
            raise _Gone
        known = self._known(locked)
        steps = self._decide(known, locked, rules, now)
        entities = await _composed([(own[id_], involved[id_]) for id_ in sorted(involved)], self._vectors.key)
        self._check(own, steps, entities)
        answer = report(work, involved, own, steps, [NO_VECTOR] if self._unembedded(entities) else [], now)
        ended = [relation for step in steps for relation in step.outcome.ended]
        if not ended:
            await writing.run(WRITE, **self._written(entities, known))
            return answer
        following = _following(known, ended)
        before = await self._recording.before(writing, triples=following)
        await writing.run(WRITE, **self._written(entities, known))
        summary = f"ended {'; '.join('→'.join(relation.triple) for relation in ended[:_NAMED])}"
        summary += f"; and {len(ended) - _NAMED} more" if len(ended) > _NAMED else ""
        notes = evidence_notes(self._evidence(own, involved, entities, following))
        return answer | {"undo_id": await self._recording.after(writing, before, summary=summary, notes=notes)}

    def _evidence(
        self,
        own: Mapping[str, Stored],
        involved: Mapping[str, Involved],
        entities: Sequence[EntityWrite],
        following: Collection[Triple],
    ) -> Searched:
        """What is searched of ends of which nothing but what can be undone was said, before this call and after."""
        undoable = {said.evidence for said in self._work.said if said.triple in following}
        ends = {end for triple in following for end in triple[::2]}
        return {
            (self._layer, entity.id): (own[entity.id].evidence, entity.fields["evidence_text"] or "")
            for entity in entities
            if entity.id in ends and undoable.issuperset(involved[entity.id].evidence)
        }

    def count(self) -> None:
        """Count what the committed run added."""
        if self._growth is not None:
            growth = self._growth
            self._census.add(
                *(self._tally, self._layer),
                entities=growth.entities,
                relations=growth.relations,
                types=growth.types,
                verbs=growth.verbs,
            )

    def _asked(self, involved: Mapping[str, Involved]) -> dict[str, Any]:
        said = self._work.said
        triples = sorted({item.triple for item in said})
        rivals = sorted({(item.source, item.relation) for item in said if item.ends_others})
        return {
            "ends": [{"id": id_, "name": involved[id_].name, "type": involved[id_].type} for id_ in sorted(involved)],
            "pairs": [{"source": source, "relation": verb, "target": target} for source, verb, target in triples],
            "rivals": [{"source": source, "relation": verb} for source, verb in rivals],
        }

    def _known(self, locked: Mapping[str, Any]) -> dict[Triple, Relation]:
        rows = [row for row in [*locked["others"], *locked["same"]] if row["layer"] == self._layer]
        return {relation.triple: relation for relation in map(stored_relation, rows)}

    def _decide(
        self, known: dict[Triple, Relation], locked: Mapping[str, Any], rules: Collection[str], now: datetime
    ) -> list[Step]:
        elsewhere = [stored_relation(row) for row in locked["same"] if row["layer"] != self._layer]
        wide = {relation.triple: relation for relation in elsewhere}
        existed = len(known)
        mention, edge_rate = self._memory.mention, self._memory.decay_edge_rate
        steps = []
        for said in self._work.said:
            rate = None if said.source in rules or said.target in rules else edge_rate
            outcome = assert_relation(known, said, now, mention=mention, rate=rate)
            steps.append(Step(outcome, wide.get(said.triple)))
        self._new_relations = len(known) - existed
        return steps

    def _check(self, own: Mapping[str, Stored], steps: Sequence[Step], entities: Sequence[EntityWrite]) -> None:
        growth = _Growth(
            entities=sum(stored.times_mentioned == 0 for stored in own.values()),
            relations=self._new_relations,
            types={stored.type for stored in own.values()},
            verbs={step.outcome.relation.relation for step in steps},
        )
        self._census.check(self._tally, self._rules, entities=growth.entities, relations=growth.relations)
        self._census.check_names(self._tally, self._layer, growth.types, growth.verbs)
        self._growth = growth
        lacking = {entity.passage for entity in entities if self._vectors.lacks(entity)}
        if lacking and not self._final:
            raise _Changed(lacking)

    def _written(self, entities: Sequence[EntityWrite], known: Mapping[Triple, Relation]) -> dict[str, Any]:
        changed = [relation for _, relation in sorted(known.items()) if relation.changed]
        return {
            "entities": [
                {"id": entity.id, "label": entity.label, "fields": entity.fields | self._vectors.fields(entity)}
                for entity in entities
            ],
            "aliases": self._work.aliases(),
            "changed": [_relation_row(relation) for relation in changed if not relation.new],
            "created": [_relation_row(relation) for relation in changed if relation.new],
        }

    def _unembedded(self, entities: Sequence[EntityWrite]) -> bool:
        return self._vectors.failed and any(not entity.embedded for entity in entities)


async def _composed(copies: Iterable[tuple[Stored | None, Involved]], key: str | None) -> list[EntityWrite]:
    """What to write on each copy. A batch may hold megabytes of text to cut into words: other calls get their turn."""
    composed = []
    for stored, entry in copies:
        composed.append(compose_entity(stored, entry, key))
        await asyncio.sleep(0)
    return composed


def _following(known: Mapping[Triple, Relation], ended: Sequence[Relation]) -> list[Triple]:
    """What was written of the relations that follow one another where one ended.

    Relations alone: their ends are mentioned by many calls, each of which would stand in the way of undoing this one.
    """
    heads = {(relation.source, relation.relation) for relation in ended}
    return [triple for triple, relation in known.items() if relation.changed and triple[:2] in heads]


def _relation_row(relation: Relation) -> dict[str, Any]:
    return {
        "source": relation.source,
        "relation": relation.relation,
        "target": relation.target,
        "fields": relation_fields(relation),
    }


def _unresolved(lost: Sequence[str]) -> InvalidInput:
    shown = "; ".join(lost[:50]) + (f"; and {len(lost) - 50} more" if len(lost) > 50 else "")
    lead = "leads" if len(lost) == 1 else "lead"
    return InvalidInput(
        f"{len(lost)} of the references {lead} to no one entity, so nothing was applied: {shown}. Describe them in "
        "batch.entities, or use a name that graph_entities shows.",
        field="batch",
    )
