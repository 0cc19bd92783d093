"""The entities that a call names, certain or refused with what helps."""

from __future__ import annotations

from collections.abc import Sequence

from app.context import layer_name
from app.errors import Forbidden, InvalidInput, NotFound
from app.graph.lookup import Reads, Resolution, resolve

__all__ = ["certain", "read_only", "sorted_names"]

_SHOWN = 5


async def certain(run: Reads, names: Sequence[str], advice: str) -> list[Resolution]:
    """What each name stands for; every one has an id.

    Raises:
        InvalidInput: a name fits several entities; the message has them.
        NotFound: a name fits nothing; ``advice`` says what to do.
    """
    found = await resolve(run, names)
    resolutions = [found[name] for name in names]
    for name, resolution in zip(names, resolutions, strict=True):
        if resolution.how == "ambiguous":
            fits = ", ".join(f"{fit.name!r} (id {fit.id})" for fit in resolution.candidates[:_SHOWN])
            raise InvalidInput(f"{name!r} fits several entities: {fits}. Call again with an id. Nothing was applied.")
    lost = [name for name, resolution in zip(names, resolutions, strict=True) if resolution.id is None]
    if lost:
        raise NotFound(f"No entity found: {', '.join(map(repr, lost))}. {advice} Nothing was applied.")
    return resolutions


def read_only(what: str, layers: Sequence[str]) -> Forbidden:
    """The refusal of a change to what lies in layers that may be read and not written."""
    names = ", ".join(sorted_names(layers))
    return Forbidden(
        f"{what} lies in layers that this connection may read and not write: {names}. Connect again and allow writing "
        "there. Nothing was applied."
    )


def sorted_names(layers: Sequence[str]) -> list[str]:
    """Layers as people write them, tenant-wide first."""
    return [layer_name(layer) for layer in sorted(set(layers))]
