"""``graph_unmerge``: what two things have in one entity is taken apart; listed relations move to a new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from app.contract import Call, Json
from app.embedding.provider import Embedder
from app.errors import Conflict, Forbidden, NotFound
from app.graph.identity import clean_name, entity_id
from app.graph.vocabulary import relation_name, type_name
from app.memory.calls import noted, once
from app.memory.census import Census
from app.memory.ends import read_only, sorted_names
from app.memory.merging.combine import Party
from app.memory.merging.divide import divide
from app.memory.merging.ends import exact, parties
from app.memory.merging.entity import lines, name_in
from app.memory.merging.merge import ATTEMPTS, Lacking, ready
from app.memory.merging.queries import HOLD, LOOK_APART
from app.memory.merging.schemas import UnmergeInput
from app.memory.vectors import Vectors
from app.store.database import Database, Writing
from app.store.images import write_images
from app.store.partition import partition_token
from app.store.undo import Recording, Retention

__all__ = ["unmerge"]

Triple = tuple[str, str, str]

_SHOWN = 20


async def unmerge(
    database: Database, embedder: Embedder, census: Census, retention: Retention, call: Call, arguments: UnmergeInput
) -> Mapping[str, Any]:
    """Make a new entity of a part of another; ``retention`` is how long that can be undone.

    Raises:
        NotFound: the original, another end or a listed relation does not exist; every lost one is named.
        Conflict: an entity with the new name exists, or the change is too large to be undone.
        Forbidden: no copy of a listed relation may be written.
        QuotaExceeded: the tenant holds all it may.
        CallError: what the store raises.
    """
    apart = _Apart.of(arguments)
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    tally = await census.of(call.scope.tenant, call.principal.tenant_layers | set(call.scope.layers))
    census.check(tally, call.principal.rules, entities=1, relations=0)
    for layer in call.scope.writable:
        census.check_names(tally, layer, {apart.type}, set())
    vectors = Vectors(embedder, call.deadline)
    for attempt in range(ATTEMPTS):
        recording = Recording(call.scope, call.tool, retention)
        divider = _Divider(call, arguments, apart, vectors, recording, attempt == ATTEMPTS - 1)
        try:
            return await session.write(divider.run, idempotency=once(call, arguments.idempotency_key))
        except Lacking as lacking:
            await vectors.add(lacking.passages)
    raise AssertionError("the last attempt accepts what it has")


@dataclass(frozen=True, slots=True)
class _Apart:
    """The new entity as the call names it."""

    id: str
    name: str
    type: str
    relations: tuple[str, ...]

    @classmethod
    def of(cls, arguments: UnmergeInput) -> _Apart:
        """Check what needs no reading."""
        named = arguments.new_entity_name
        relations = tuple(
            relation_name(edge.relation_type, field=f"edges_to_move[{number}].relation_type")
            for number, edge in enumerate(arguments.edges_to_move)
        )
        type_ = type_name(arguments.new_entity_type, field="new_entity_type")
        return cls(entity_id(named), clean_name(named), type_, relations)


@dataclass(frozen=True, slots=True)
class _Seen:
    """What there is of the original and of the listed relations."""

    original: Party
    triples: tuple[Triple, ...]
    moving: Mapping[Triple, list[str]]
    """Layers of the visible copies of each."""
    edges: int
    gone: set[str]
    """Evidence that no relation of the original gives any more."""


@dataclass(frozen=True, slots=True)
class _Divider:
    """One attempt; ``run`` may be called several times."""

    call: Call
    arguments: UnmergeInput
    apart: _Apart
    vectors: Vectors
    recording: Recording
    final: bool

    async def run(self, writing: Writing) -> Json:
        """Look, decide, write; the answer."""
        seen = await self._seen(writing)
        writable = set(self.call.scope.writable)
        kept = sorted(triple for triple, held in seen.moving.items() if not set(held) <= writable)
        before = await self.recording.before(writing, [seen.original.id], around=[self.apart.id], triples=seen.triples)
        for key, image in before.records.items():
            if key[0] == "entity" and key[2] == self.apart.id:
                raise self._taken(image["properties"].get("name"))
        party = Party(self.apart.id, self.apart.name, self.apart.type)
        divided = divide(before.records, seen.original, party, seen.triples, gone=seen.gone)
        for layer in divided.layers() or [self._write_layer()]:
            await self._hold(writing.into(layer))
            divided.found(party, layer, partition_token(self.call.scope.tenant, layer), datetime.now(UTC))
        warnings = ready(divided.drafts.values(), self.vectors, final=self.final)
        images = {key: draft.image(self.vectors) for key, draft in divided.drafts.items()}
        wanted = {**divided.wanted, **images}
        await write_images(writing, wanted, before.records)
        of = name_in(sorted({key[1] for key in wanted}), seen.original.id, before.records)
        summary = f"took {self.apart.name!r} ({self.apart.id}) out of {of!r} ({seen.original.id})"
        undo_id = await self.recording.after(writing, before, summary=summary)
        await noted(
            *(writing, self.call, seen.original.id, sorted({key[1] for key in wanted})),
            new_entity=self.apart.id,
            reason=self.arguments.reason,
            undo_id=undo_id,
        )
        return {
            "original": {
                "id": seen.original.id,
                "name": seen.original.name,
                "remaining_edges": seen.edges - len(seen.moving) + len(kept),
            },
            "new_entity": {
                "id": self.apart.id,
                "name": self.apart.name,
                "type": self.apart.type,
                "moved_edges": len(seen.moving),
            },
            "layers": sorted_names(divided.layers()),
            "kept_edges": ["→".join(triple) for triple in kept],
            "audit_logged": True,
            "undo_id": undo_id,
            "warnings": warnings,
        }

    async def _hold(self, writing: Writing) -> None:
        """Let nobody else make the new entity's copy in this layer. What was read before has no such copy."""
        name = (await writing.run(HOLD, id=self.apart.id))[0]["name"]
        if name is not None:
            raise self._taken(name)

    def _taken(self, name: str | None) -> Conflict:
        return Conflict(
            f"an entity with the id {self.apart.id!r} exists already ({name!r}). Give the new one a name that tells "
            "them apart, or use graph_relate to connect the existing one. Nothing was applied."
        )

    async def _seen(self, writing: Writing) -> _Seen:
        edges = self.arguments.edges_to_move
        named = {"Entity": self.arguments.entity_id}
        named |= {f"edges_to_move[{number}].other_entity_id": edge.other_entity_id for number, edge in enumerate(edges)}
        original, *others = (await exact(writing.run, named)).values()
        triples = tuple(
            (original, relation, other) if edge.direction == "out" else (other, relation, original)
            for edge, relation, other in zip(edges, self.apart.relations, others, strict=True)
        )
        row = (
            await writing.run(
                LOOK_APART,
                ids=sorted({original, *others}),
                triples=[list(triple) for triple in triples],
                source=original,
                id=self.apart.id,
            )
        )[0]
        if self.apart.id == original or row["clash"] is not None:
            raise self._taken(row["clash"])
        moving: dict[Triple, list[str]] = {}
        for triple, layer in row["moving"]:
            moving.setdefault(tuple(triple), []).append(layer)
        self._complete(triples, moving)
        party = (await parties(writing, [original]))[original][0]
        return _Seen(party, triples, moving, row["edges"], lines(row["pieces"]) - lines(row["still"]))

    def _complete(self, triples: Sequence[Triple], moving: Mapping[Triple, list[str]]) -> None:
        lost = [f"edges_to_move[{at}] {'→'.join(triple)}" for at, triple in enumerate(triples) if triple not in moving]
        if lost:
            more = f"; and {len(lost) - _SHOWN} more" if len(lost) > _SHOWN else ""
            raise NotFound(
                f"no such relation: {'; '.join(lost[:_SHOWN])}{more}. graph_query shows the relations and their "
                "direction. Nothing was applied."
            )
        bound = {
            layer: triple
            for triple, held in moving.items()
            if not set(held) & set(self.call.scope.writable)
            for layer in held
        }
        if bound:
            raise read_only(f"The relation {'→'.join(next(iter(bound.values())))}", list(bound))

    def _write_layer(self) -> str:
        layer = self.call.scope.write_layer
        if layer is None:
            raise Forbidden("this connection has no layer to write new records to; grant it one. Nothing was applied.")
        return layer
