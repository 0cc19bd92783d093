"""The entities that a merge names: exactly, never by a guess."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from app.errors import Conflict, InvalidInput, NotFound
from app.graph.lookup import Reads, Resolution, resolve
from app.memory.ends import read_only
from app.memory.merging.combine import Party
from app.memory.removing.queries import COPIES
from app.memory.removing.removal import Copy
from app.store.database import Writing

__all__ = ["exact", "must_be_free", "parties"]

_SHOWN = 5


async def exact(run: Reads, named: Mapping[str, str]) -> dict[str, str]:
    """From what each name is called in messages to the id that it has; a misspelt name is only helped.

    Raises:
        NotFound: a name fits nothing exactly.
        InvalidInput: a name fits several entities.
    """
    found = await resolve(run, list(named.values()), fuzzy=False)
    lost = [name for name in named.values() if found[name].how == "unknown"]
    near = await resolve(run, lost) if lost else {}
    for title, name in named.items():
        resolution = found[name]
        if resolution.how == "ambiguous":
            fits = _shown(resolution)
            raise InvalidInput(f"{title} {name!r} fits several entities: {fits}. Give an id. Nothing was applied.")
        if resolution.id is None:
            fits = _shown(near[name])
            hint = f"did you mean {fits}?" if fits else "graph_entities and graph_search show what exists."
            raise NotFound(f"{title} {name!r} not found; {hint} Nothing was applied.")
    return {title: found[name].id or "" for title, name in named.items()}


async def parties(writing: Writing, ids: Iterable[str]) -> dict[str, tuple[Party, list[Copy]]]:
    """The visible copies of entities, and each as they show it together (tenant-wide first, then by layer name).

    Raises:
        NotFound: one has gone meanwhile.
    """
    wanted = list(ids)
    copies = [Copy(**row) for row in await writing.run(COPIES, ids=wanted)]
    shown: dict[str, tuple[Party, list[Copy]]] = {}
    for id_ in wanted:
        own = [copy for copy in copies if copy.id == id_]
        if not own:
            raise NotFound("the entity has gone meanwhile. Nothing was applied.")
        shown[id_] = Party(id_, own[0].name, own[0].type), own
    return shown


def must_be_free(copies: Iterable[Copy], what: str, *, goes: bool) -> None:
    """Refuse what may not be changed; ``goes``: it is to be deleted.

    Raises:
        Forbidden: a visible copy lies in a layer that may not be written.
        Conflict: something other than the memory uses one.
    """
    held = list(copies)
    if bound := [copy.layer for copy in held if not copy.may]:
        raise read_only(what, bound)
    if goes and any(copy.backed for copy in held):
        raise Conflict(f"{what} is in use elsewhere, by notes or the ledger, and cannot go. Nothing was applied.")


def _shown(resolution: Resolution) -> str:
    named = [(resolution.name, resolution.id)] if resolution.id else []
    named += [(fit.name, fit.id) for fit in resolution.candidates[:_SHOWN]]
    return ", ".join(f"{name!r} (id {id_})" for name, id_ in named)
