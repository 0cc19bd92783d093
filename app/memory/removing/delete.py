"""``graph_delete``: the memory's part of one entity, in each of its copies that may be written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.contract import Call, Json
from app.errors import InvalidInput, NotFound
from app.graph.lookup import Candidate, Reads, resolve
from app.memory.calls import noted, once
from app.memory.census import Census
from app.memory.ends import read_only, sorted_names
from app.memory.removing.removal import locked, removed
from app.memory.removing.schemas import DeleteInput
from app.store.database import Database, Writing
from app.store.undo import Recording, Retention

__all__ = ["delete"]


async def delete(
    database: Database, census: Census, retention: Retention, call: Call, arguments: DeleteInput
) -> Mapping[str, Any]:
    """Answer ``graph_delete``. Names are taken exactly or as aliases: what is destroyed is never guessed.

    Raises:
        NotFound: nothing has this id, name or alias; the message has what comes near.
        InvalidInput: no name, two names, or an alias of several.
        Forbidden: no copy may be written.
        Conflict: it has more relations than one change may take away.
        CallError: what the store raises.
    """
    given = {name for name in (arguments.entity_id, arguments.id) if name is not None}
    if len(given) != 1:
        raise InvalidInput(
            "Give entity_id: the id or exact name of one entity. Nothing was applied.", field="entity_id"
        )
    name = given.pop()
    session = database.session(call.scope, deadline=call.deadline, request_id=call.request_id)
    recording = Recording(session.scope, call.tool, retention)

    taken = (0, 0)

    async def work(writing: Writing) -> Json:
        nonlocal taken
        id_ = await _exactly(writing.run, name)
        going = await locked(writing, recording, [id_], [])
        copies = [copy for copy in going.copies if copy.id == id_]
        if not copies:
            raise _unknown(name)
        if not any(copy.may for copy in copies):
            raise read_only(f"The entity {name!r}", [copy.layer for copy in copies])
        told = min((copy for copy in copies if copy.may), key=lambda copy: not copy.goes)
        aliases, undo_id = await removed(writing, recording, going, f"deleted {told.name}")
        taken = going.size()
        gone = [copy.layer for copy in copies if copy.goes]
        layers = going.layers() or gone
        await noted(writing, call, id_, layers, reason=arguments.reason, undo_id=undo_id)
        return {
            "deleted": bool(gone),
            "action": "deleted" if gone else "kept",
            "id": id_,
            "entity": {"id": id_, "name": copies[0].name, "type": copies[0].type},
            "edges_removed": len(going.relations()),
            "aliases_removed": aliases + len(going.aliases),
            "layers": sorted_names(gone),
            "kept": [copy.kept() for copy in going.copies if not copy.goes],
            "undo_id": undo_id,
        }

    answer = await session.write(work, idempotency=once(call, arguments.idempotency_key))
    census.less(call.scope.tenant, entities=taken[0], relations=taken[1])
    return answer


async def _exactly(run: Reads, name: str) -> str:
    resolution = (await resolve(run, [name]))[name]
    if resolution.id is not None and resolution.how in {"id", "alias"}:
        return resolution.id
    near = list(resolution.candidates)
    if resolution.how == "ambiguous" and await _leads_to_several(run, name):
        raise InvalidInput(
            f"{name!r} fits several entities: {_shown(near)}. Call again with an id. Nothing was applied.",
            field="entity_id",
        )
    if resolution.id is not None:
        near = [Candidate(resolution.id, resolution.name or resolution.id, resolution.type or "")]
    raise _unknown(name, near)


async def _leads_to_several(run: Reads, name: str) -> bool:
    """Whether it is an alias of several, and not only near them."""
    return (await resolve(run, [name], fuzzy=False))[name].how == "ambiguous"


def _shown(fits: list[Candidate]) -> str:
    return ", ".join(f"{fit.name!r} (id {fit.id})" for fit in fits[:5])


def _unknown(name: str, near: list[Candidate] | None = None) -> NotFound:
    hint = _shown(near or [])
    return NotFound(
        f"No entity found with id: {name}. {f'Near it: {hint}. ' if hint else ''}graph_entities shows those that "
        "exist. Nothing was applied."
    )
