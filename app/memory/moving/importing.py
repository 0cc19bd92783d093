"""Taking over another system's memory: read whole, then written with what the tenant has under a new data id."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal

import orjson

from app.context import TENANT_WIDE, Deadline, Scope
from app.counting import counted
from app.errors import Conflict, InvalidInput
from app.graph.vocabulary import ENTITY_PROPERTIES
from app.memory.census import Census
from app.memory.compose import Stored, compose_entity, relation_fields
from app.memory.fading.rest import rest, state_at
from app.memory.moments import moment_text, stored_moment
from app.memory.moving.batches import Batches
from app.memory.moving.exchange import Exchange, exchange
from app.memory.moving.gathering import Gathered, Known, Told, gather
from app.memory.moving.records import EDGE_MOMENTS, NODE_MOMENTS, Records
from app.memory.moving.restore import embedding_key, held, require_empty
from app.memory.moving.sources import SOURCES, Bad, Thing
from app.memory.plan import ALIAS_OF
from app.memory.timeline import SINGLE_VALUED, Outcome, Relation, Triple, assert_relation
from app.settings import MemorySettings, Settings
from app.store.control.tenants import Tenant
from app.store.database import Database
from app.store.moving.dump import Dump
from app.store.moving.format import Counts
from app.store.moving.load import Row
from app.store.moving.queries import COUNT_STORED, RESOLVE

__all__ = ["Imported", "import_memory"]

_ASKED: Final = 1000
_SECONDS: Final = 120.0
_BAD_SHOWN: Final = 20
_RELATION_OWN: Final = frozenset({"weight", "evidence", "extra", "past", "decay_state"})
_VECTOR: Final = ("embedding", "embedding_of")


@dataclass(frozen=True, slots=True)
class Imported:
    """What an import did."""

    entities: int
    """Entities that the source names."""
    relations: int
    created_entities: int
    created_relations: int
    skipped: tuple[Bad, ...]
    without_vector: int
    """Entities of the source that are found by their words alone until they are embedded."""
    holds: Counts
    """What the tenant holds now."""


async def import_memory(
    database: Database,
    settings: Settings,
    tenant: Tenant,
    path: Path,
    source: str,
    *,
    layer: str = TENANT_WIDE,
    skip_bad: bool = False,
    alone: bool = False,
    instead: Literal["empty", "any"] | None = None,
    shown: Callable[[int], None] = lambda done: None,
) -> Imported:
    """Read ``path`` as a file of ``source`` (a key of ``SOURCES``) into a layer of the tenant.

    Entities and relations meet those that are there as with ``graph_relate``: by id and alias in the layer and
    tenant-wide, single-valued relations in the order of validity. All or nothing, whatever happens meanwhile.

    ``instead``: the file becomes the tenant's memory in place of what it holds: of nothing ("empty"), or of "any".

    Raises:
        InvalidInput: bad lines, each named, unless ``skip_bad``.
        QuotaExceeded: the tenant would hold more than it may. Conflict: it is being moved already, or is not empty.
    """
    if instead == "empty":
        await require_empty(database, tenant)
    rules = tenant.rules
    single = SINGLE_VALUED if rules.single_valued is None else rules.single_valued
    gathered = await asyncio.to_thread(gather, SOURCES[source](path), single)
    asked = gathered.ids()
    known = {} if instead else await _known(database, tenant, layer, asked)
    gathered.resolve(known)
    bad = sorted(gathered.bad, key=lambda each: each.line)
    if bad and not skip_bad:
        raise _refusal(bad)
    key = await embedding_key(database)
    async with exchange(database, settings, tenant.id, alone=alone) as under_way:
        tenant = await under_way.freeze()  # layers may have been added to it
        if instead == "empty":
            await require_empty(database, tenant)  # nobody wrote meanwhile
        # What the names mean may have changed until the tenant stood still.
        if not instead and known != await _known(database, tenant, layer, asked):
            raise InvalidInput("the tenant's memory changed while the file was read. Nothing was applied; try again.")
        merging = _Merging(gathered, layer, key, frozenset(each.id for each in known.values()), settings.memory)
        poured = await _pour(under_way, () if instead else sorted(tenant.all_layers()), merging, key, shown)
        if instead:
            poured = Counts(**await held(database, tenant))
        await _check(under_way, database, settings, tenant, merging, poured)
        await under_way.finish([layer], action="tenant.import")
    return Imported(
        entities=len(gathered.involved),
        relations=len(gathered.told),
        created_entities=merging.created_entities,
        created_relations=merging.created_relations,
        skipped=tuple(bad),
        without_vector=merging.without_vector,
        holds=under_way.load.counts,
    )


async def _pour(
    under_way: Exchange, layers: Sequence[str], merging: _Merging, key: str | None, shown: Callable[[int], None]
) -> Counts:
    """Copy what the tenant has in these layers, merged with what is new, page by page; how many records it had."""
    reading = Records(vectors=key)
    dump = Dump(under_way.reading, under_way.move.before, layers, vectors=True)
    async with Batches(under_way.load, shown) as batches:
        async for piece in dump.lines({"nodes": 0, "edges": 0}):
            await batches.pour(_passing(piece, reading, merging))
        for rows in (merging.nodes(), merging.aliases(), merging.edges()):
            await batches.pour(rows)
        await batches.flush()
    return dump.seal.counts


def _passing(piece: bytes, reading: Records, merging: _Merging) -> Iterator[Row]:
    for record in map(orjson.loads, piece.splitlines()):
        if record["record"] not in {"meta", "end"}:
            for row in reading.rows(0, record):
                if row.kind == "edge" and row.layer == merging.layer:
                    yield from merging.nodes()
                yield from merging.passed(row)


class _Merging:
    """What the source says of one layer, meeting what is stored there as it passes by."""

    def __init__(
        self, gathered: Gathered, layer: str, key: str | None, there: frozenset[str], memory: MemorySettings
    ) -> None:
        self.layer = layer
        self.created_entities = self.created_relations = self.without_vector = 0
        self._gathered = gathered
        self._key = key
        self._there = there
        self._memory = memory
        self._now = datetime.now(UTC)
        self._stored: dict[str, Row] = {}
        self._edges: dict[tuple[str, str], dict[Triple, Relation]] = {}
        self._written = False
        self._aliases = {
            told.ends[0]: Row("alias", layer, told.said.line, _alias(told))
            for told in gathered.told
            if told.assertion.relation == ALIAS_OF
        }
        self._whole = {_group(told) for told in gathered.told if told.assertion.ends_others}
        self._single = {told.assertion.triple for told in gathered.told}

    def names(self) -> tuple[set[str], set[str]]:
        """Types and relations of the source."""
        types = {entry.type for entry in self._gathered.involved.values()}
        return types, {told.assertion.relation for told in self._gathered.told}

    def passed(self, row: Row) -> Sequence[Row]:
        """The row, or nothing where the source speaks of the same record: that is written merged, later."""
        if row.layer != self.layer:
            return (row,)
        values = row.values
        if row.kind == "node" and values["id"] in self._gathered.involved:
            self._stored[values["id"]] = row
        elif row.kind == "alias" and values["id"] in self._aliases:
            return ()
        elif row.kind == "edge" and self._meets(values):
            relation = _stored_relation(values)
            self._edges.setdefault((relation.source, relation.relation), {})[relation.triple] = relation
        else:
            return (row,)
        return ()

    def nodes(self) -> Iterator[Row]:
        """The entities of the source, once: before the first relation of the layer."""
        if self._written:
            return
        self._written = True
        for id_ in sorted(self._gathered.involved):
            yield self._node(id_)

    def aliases(self) -> list[Row]:
        """Names that lead to another entity."""
        return [self._aliases[id_] for id_ in sorted(self._aliases)]

    def edges(self) -> Iterator[Row]:
        """The relations of the source, asserted in the order of validity among those that they meet."""
        beginning = datetime.min.replace(tzinfo=UTC)
        groups: dict[tuple[str, str], list[Told]] = {}
        for told in sorted(self._gathered.told, key=lambda each: each.assertion.valid_at or beginning):
            groups.setdefault(_group(told), []).append(told)
        for group in sorted(groups):
            known = self._edges.pop(group, {})
            for told in groups[group]:
                outcome = self._asserted(known, told)
                self.created_relations += outcome.action == "created"
                _dated(outcome.relation, told, self._now, new=outcome.action == "created")
            for _, relation in sorted(known.items()):
                yield Row("edge", self.layer, 0, _edge_values(relation))

    def _asserted(self, known: dict[Triple, Relation], told: Told) -> Outcome:
        said, rate = told.assertion, self._memory.decay_edge_rate
        if any(end in self._stored and _stored(self._stored[end]).is_rule for end in said.triple[::2]):
            return assert_relation(known, said, self._now, mention=self._memory.mention)
        if said.triple in known:
            said = replace(said, weight=rest(said.weight, told.said.faded_at, None, rate, self._now))
        return assert_relation(known, said, self._now, mention=self._memory.mention, rate=rate)

    def _meets(self, values: Mapping[str, Any]) -> bool:
        group = (values["source"], values["relation"])
        return group in self._whole or (*group, values["target"]) in self._single

    def _node(self, id_: str) -> Row:
        row, entry, thing = self._stored.get(id_), self._gathered.involved[id_], self._gathered.things.get(id_)
        stored = None if row is None else _stored(row)
        made = compose_entity(stored, entry, self._key)
        fields = {**(row.values["fields"] if row else {"name": entry.name, "type": entry.type}), **made.fields}
        if not made.embedded:
            self.without_vector += 1
            fields |= dict.fromkeys(_VECTOR)
        seen = {} if row is None else {key: row.values[key] for key in NODE_MOMENTS}
        first = (thing.first_seen if thing else None) or self._now
        last = (thing.last_seen if thing else None) or self._now
        if stored is None:
            self.created_entities += id_ not in self._there
            fields["times_mentioned"] = (thing.times_mentioned if thing else None) or fields["times_mentioned"]
            fields["decay_state"] = state_at(fields["confidence"], thing.faded_at if thing else None)
        else:
            fields["confidence"] = self._confidence(stored, thing)
            fields["decay_state"] = state_at(fields["confidence"], self._now)
        first = min(first, stored_moment(seen.get("first_seen")) or first)
        last = max(last, stored_moment(seen.get("last_seen")) or last)
        values: dict[str, Any] = {
            "id": id_,
            "label": made.label,
            "fields": {k: v for k, v in fields.items() if v is not None},
        }
        values |= {"first_seen": moment_text(first), "last_seen": moment_text(last)}
        return Row("node", self.layer, 0, values)

    def _confidence(self, stored: Stored, thing: Thing | None) -> float:
        """The greater of what is left of what is held and of what the source holds."""
        told, faded_at = (thing.confidence, thing.faded_at) if thing else (None, None)
        if stored.is_rule:
            return max(stored.confidence, told or 0.0)
        rate = self._memory.rates.get(stored.type, self._memory.decay_other_rate)
        left = stored.faded(self._memory, self._now).confidence
        return max(left, rest(told or 0.0, faded_at, None, rate, self._now))


def _stored(row: Row) -> Stored:
    fields = row.values["fields"]
    return Stored(
        id=row.values["id"],
        layer=row.layer,
        name=fields["name"],
        type=fields["type"],
        aliases=tuple(fields.get("aliases") or ()),
        confidence=float(fields.get("confidence") or 0.0),
        times_mentioned=int(fields.get("times_mentioned") or 0),
        evidence=fields.get("evidence_text") or "",
        embedding_of=fields.get("embedding_of"),
        native={key: value for key, value in fields.items() if key in ENTITY_PROPERTIES},
        extra=orjson.loads(fields["extra"]) if fields.get("extra") else {},
        last_seen=stored_moment(row.values["last_seen"]),
        decay_state=fields.get("decay_state"),
    )


def _stored_relation(values: Mapping[str, Any]) -> Relation:
    fields = values["fields"]
    moments = {key: stored_moment(values[key]) for key in EDGE_MOMENTS}
    ingested = moments["ingested_at"] or moments["last_confirmed"] or datetime.now(UTC)
    return Relation(
        *(values["source"], values["relation"], values["target"]),
        weight=float(fields.get("weight", 0.5)),
        ingested_at=ingested,
        last_confirmed=moments["last_confirmed"] or ingested,
        valid_at=moments["valid_at"],
        invalid_at=moments["invalid_at"],
        ended_at=moments["ended_at"],
        evidence=fields.get("evidence"),
        native={key: value for key, value in fields.items() if key not in _RELATION_OWN},
        extra=orjson.loads(fields["extra"]) if fields.get("extra") else {},
        past=orjson.loads(fields["past"]) if fields.get("past") else [],
        decay_state=fields.get("decay_state"),
    )


def _dated(relation: Relation, told: Told, now: datetime, *, new: bool) -> None:
    """Set the moments that the source knows of a relation."""
    said = told.said
    if new:
        relation.ingested_at = said.ingested_at or said.last_confirmed or now
        relation.last_confirmed = said.last_confirmed or relation.ingested_at
        relation.decay_state = state_at(relation.weight, said.faded_at)
    if said.invalid_at is not None and relation.current and (new or relation.valid_at == said.valid_at):
        relation.invalid_at = said.invalid_at
        relation.ended_at = said.last_confirmed or now


def _edge_values(relation: Relation) -> dict[str, Any]:
    fields = {key: value for key, value in relation_fields(relation).items() if key not in EDGE_MOMENTS}
    return {
        "source": relation.source,
        "relation": relation.relation,
        "target": relation.target,
        "fields": {key: value for key, value in fields.items() if value is not None},
        **{key: moment_text(getattr(relation, key)) for key in EDGE_MOMENTS},
    }


def _alias(told: Told) -> dict[str, Any]:
    return {"id": told.ends[0], "target": told.assertion.target, "name": told.said.source}


def _group(told: Told) -> tuple[str, str]:
    return told.assertion.source, told.assertion.relation


async def _known(database: Database, tenant: Tenant, layer: str, ids: Sequence[str]) -> dict[str, Known]:
    """What the ids mean in the layer and tenant-wide (partition rule 7), by id; what is unknown is left out."""
    layers = tuple(sorted({layer, TENANT_WIDE}))
    session = database.session(
        Scope(tenant.data, layers, (), None, "import"), deadline=Deadline.after(_SECONDS), request_id="import"
    )
    found: dict[str, Known] = {}
    if not any((await session.read(COUNT_STORED))[0].values()):
        return found
    for start in range(0, len(ids), _ASKED):
        asked = await session.read(RESOLVE, ids=list(ids[start : start + _ASKED]))
        for id_, shown, confidence, targets, aliased in asked[0]["rows"]:
            if shown is not None:
                found[id_] = Known(id_, shown[1], shown[2], float(confidence or 0.0))
            elif len(targets) == 1:
                found[id_] = Known(targets[0], aliased[1], aliased[2], 0.0)
    return found


async def _check(
    under_way: Exchange, database: Database, settings: Settings, tenant: Tenant, merging: _Merging, poured: Counts
) -> None:
    """Hold the whole against the tenant's quotas and the rules about names, and against what the tenant has and what
    was made, before anyone sees it."""
    layers = tenant.all_layers() | {merging.layer}

    def opened(scope: Scope, deadline: Deadline) -> Any:
        return database.session(scope, deadline=deadline, request_id="import")

    census = Census(opened, settings.limits)
    scope = Scope(under_way.move.id, tuple(sorted(layers)), (), None, "import")
    stored = (await under_way.reading(scope).read(COUNT_STORED))[0]
    tally = await census.of(tenant.data, layers)
    empty = replace(tally, entities=0, relations=0)
    census.check(empty, tenant.rules, entities=stored["nodes"], relations=stored["edges"])
    census.check_names(tally, merging.layer, *merging.names())
    if Counts(**stored) != under_way.load.counts or Counts(**await held(database, tenant)) != poured:
        raise Conflict("the tenant's memory changed while it was copied. Nothing was applied; try again.")


def _refusal(bad: Sequence[Bad]) -> InvalidInput:
    shown = "; ".join(f"line {each.line}: {each.why}" for each in bad[:_BAD_SHOWN])
    more = f"; and {len(bad) - _BAD_SHOWN} more" if len(bad) > _BAD_SHOWN else ""
    return InvalidInput(
        f"{counted(len(bad), 'line')} cannot be taken over, so nothing was applied: {shown}{more}. Mend them, or leave "
        "them out with --skip-bad.",
        field="file",
    )
