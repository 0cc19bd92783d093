"""``graph_merge``: two entities that are one thing become one, in every layer that holds a copy of the source.

One transaction: lock both and look, decide on exact images, write images, record what undoes it. A text to embed is
embedded between two attempts, never under the lock; a dry run is the same attempt, rolled back.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from app.contract import Call, Json
from app.embedding.provider import Embedder
from app.errors import InvalidInput
from app.memory.calls import noted, once
from app.memory.ends import sorted_names
from app.memory.merging.combine import Combined, Fading, Party, combine, led
from app.memory.merging.ends import exact, must_be_free, parties
from app.memory.merging.entity import Draft, lines, name_in
from app.memory.merging.queries import LOOK
from app.memory.merging.schemas import MergeInput
from app.memory.queries import LOCK_COPIES
from app.memory.timeline import SINGLE_VALUED
from app.memory.vectors import NO_VECTOR, Vectors
from app.settings import MemorySettings
from app.store.database import Database, Writing
from app.store.images import MOST_RECORDS, write_images
from app.store.undo import Recording, Retention

__all__ = ["ATTEMPTS", "Lacking", "merge", "ready"]

ATTEMPTS: Final = 3
"""Times that texts are embedded before a missing vector is accepted."""


class Lacking(Exception):
    """Texts are to be embedded first; nothing was applied."""

    def __init__(self, passages: set[str]) -> None:
        super().__init__()
        self.passages = passages


class _Rehearsed(Exception):
    """A dry run ends: rolled back, with its answer."""

    def __init__(self, answer: Json) -> None:
        super().__init__()
        self.answer = answer


async def merge(
    database: Database,
    embedder: Embedder,
    memory: MemorySettings,
    retention: Retention,
    call: Call,
    arguments: MergeInput,
) -> Mapping[str, Any]:
    """Merge, or report what merging would do; ``retention`` is how long it can be undone.

    Raises:
        NotFound: one of the two does not exist.
        InvalidInput: both are one entity, or a name fits several.
        Forbidden: a visible copy lies in a layer that may not be written.
        Conflict: something other than the memory uses the source, or the change is too large to be undone.
        CallError: what the store raises.
    """
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    vectors = Vectors(embedder, call.deadline)
    for attempt in range(ATTEMPTS):
        recording = Recording(call.scope, call.tool, retention)
        merger = _Merger(call, arguments, memory, vectors, recording, attempt == ATTEMPTS - 1)
        try:
            return await session.write(merger.run, idempotency=once(call, arguments.idempotency_key))
        except Lacking as lacking:
            await vectors.add(lacking.passages)
        except _Rehearsed as rehearsed:
            return rehearsed.answer
    raise AssertionError("the last attempt accepts what it has")


def ready(drafts: Iterable[Draft], vectors: Vectors, *, final: bool) -> list[str]:
    """Warnings about vectors; raises ``Lacking`` for those that could be had."""
    writes = [draft.write(vectors.key) for draft in drafts]
    lacking = {write.passage for write in writes if vectors.lacks(write)}
    if lacking and not final:
        raise Lacking(lacking)
    return [NO_VECTOR] if vectors.failed and any(not write.embedded for write in writes) else []


@dataclass(frozen=True, slots=True)
class _Merger:
    """One attempt; ``run`` may be called several times."""

    call: Call
    arguments: MergeInput
    memory: MemorySettings
    vectors: Vectors
    recording: Recording
    final: bool

    async def run(self, writing: Writing) -> Json:
        """Look, decide, write; the answer."""
        named = {"Source entity": self.arguments.source_id, "Target entity": self.arguments.target_id}
        source_id, target_id = (await exact(writing.run, named)).values()
        if source_id == target_id:
            raise InvalidInput(
                "Cannot merge an entity with itself: both names lead to the same one. Nothing was applied.",
                field="target_id",
            )
        seen = await self._seen(writing, source_id, target_id)
        shown = await parties(writing, [source_id, target_id])
        source, target = shown[source_id][0], shown[target_id][0]
        for party, copies in shown.values():
            must_be_free(copies, f"The entity {party.name!r}", goes=party is source)
        if ends := {end for triple in seen["triples"] for end in triple[::2]} - {source_id, target_id}:
            await writing.run(LOCK_COPIES, ids=sorted(ends))
        before = await self.recording.before(
            writing,
            {target_id, *led(seen["names"])},
            around=[source_id],
            triples=[_moved(triple, source_id, target_id) for triple in seen["triples"]],
        )
        fading = Fading(self.memory, frozenset(seen["rules"]), datetime.now(UTC))
        gone = lines(seen["loops"]) - lines(seen["still"])
        done = combine(before.records, source, target, fading, gone=gone)
        warnings = [*_of_types(source, target), *ready(done.drafts.values(), self.vectors, final=self.final)]
        answer = self._answer(source, target, done, seen["values"], warnings)
        if self.arguments.dry_run:
            raise _Rehearsed(answer)
        images = {key: draft.image(self.vectors) for key, draft in done.drafts.items()}
        await write_images(writing, {**done.wanted, **images}, before.records)
        into = name_in([copy.layer for copy in shown[source_id][1]], target.id, images)
        summary = f"merged {source.name!r} ({source.id}) into {into!r} ({target.id})"
        answer["undo_id"] = await self.recording.after(writing, before, summary=summary)
        await noted(
            *(writing, self.call, target_id, done.layers()),
            source=source_id,
            reason=self.arguments.reason,
            undo_id=answer["undo_id"],
        )
        return answer

    async def _seen(self, writing: Writing, source: str, target: str) -> Mapping[str, Any]:
        rules = self.call.principal.rules
        single = SINGLE_VALUED if rules.single_valued is None else rules.single_valued
        rows = await writing.run(
            LOOK,
            ids=sorted({source, target}),
            source=source,
            target=target,
            single=sorted(single),
            most=MOST_RECORDS + 1,
        )
        return rows[0]

    def _answer(
        self, source: Party, target: Party, done: Combined, values: Sequence[Sequence[str]], warnings: list[str]
    ) -> Json:
        real = not self.arguments.dry_run
        return {
            "source": {"id": source.id, "name": source.name, "type": source.type, "deleted": real},
            "target": {"id": target.id, "name": target.name, "type": target.type},
            "edges_added": len(done.added),
            "edges_consolidated": len(done.consolidated),
            "self_loops_dropped": len(done.dropped),
            "properties_adopted": sorted(done.adopted),
            "aliases_added": list(done.aliases),
            "contradiction_candidates": _doubled(values),
            "layers": sorted_names(done.layers()),
            "dry_run": not real,
            "audit_logged": real,
            "undo_id": None,
            "warnings": warnings,
        }


def _moved(triple: Sequence[str], source: str, target: str) -> tuple[str, str, str]:
    first, relation, last = triple
    return (target if first == source else first, relation, target if last == source else last)


def _of_types(source: Party, target: Party) -> list[str]:
    if source.type == target.type:
        return []
    return [f"The types differ: {source.name!r} is {source.type}, {target.name!r} is and stays {target.type}."]


def _doubled(values: Sequence[Sequence[str]]) -> list[dict[str, Any]]:
    """Relations with one value at a time that have several current ones now; values come sorted, each once."""
    by_relation: dict[str, list[dict[str, str]]] = {}
    for relation, id_, name in values:
        by_relation.setdefault(relation, []).append({"id": id_, "name": name})
    return [{"relation": relation, "values": held} for relation, held in by_relation.items() if len(held) > 1]
