"""What a person may give to a client or token, from what they are in the tenant (partition rules 1 and 3).

Consent, tokens of the command line and every refresh ask here; :func:`within` is the one decision.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final

from app.access.layers import WRITE_SUFFIX, allowed_scopes
from app.context import EVERY_LAYER, SCOPES, TENANT_WIDE, Grant, layer_from_name, layer_name
from app.errors import Forbidden, InvalidInput
from app.store.control.tenants import check_layer_name
from app.store.control.users import Membership

__all__ = ["WRITES", "layers_from_names", "make_grant", "named_layers", "unreadable", "within"]

WRITES: Final = frozenset(scope for scope in SCOPES if scope.endswith(WRITE_SUFFIX))
"""The scopes that change something."""


def make_grant(
    membership: Membership,
    *,
    grant_id: str,
    operator: bool,
    scopes: Iterable[str] | None = None,
    read_layers: Sequence[str] | None = None,
    write_layers: Sequence[str] | None = None,
) -> Grant:
    """A grant within the membership; layer names as people write them.

    None means: all scopes that the role can hold, all layers that the member may read, and, where a scope writes,
    writing tenant-wide. The first write layer is where writes go by default; an owner may name layers that are new.

    Raises:
        InvalidInput: an unknown scope, a bad layer name, a layer to write that is not read or that no scope writes.
        Forbidden: more than the member holds.
    """
    wanted = _scopes(membership, scopes, operator=operator)
    writes = not wanted.isdisjoint(WRITES)
    if write_layers and not writes:
        raise InvalidInput(
            "this token only reads; add a scope such as memory:write, or name no layer to write.", field="scope"
        )
    read = membership.read_layers if read_layers is None else frozenset(layers_from_names(read_layers))
    if write_layers is None:
        write: tuple[str, ...] = (TENANT_WIDE,) if writes else ()
    else:
        write = layers_from_names(write_layers)
    grant = Grant(
        id=grant_id,
        scopes=wanted,
        read_layers=read,
        write_layers=frozenset(write),
        write_layer=None if not write else TENANT_WIDE if write[0] == EVERY_LAYER else write[0],
    )
    _check_held(grant, within(grant, membership, operator=operator))
    return grant


def within(grant: Grant, membership: Membership, *, operator: bool) -> Grant:
    """What of ``grant`` the member may give at present: never more scopes or layers, and no write for a reader."""
    scopes = grant.scopes & allowed_scopes(membership.role, operator=operator)
    write: frozenset[str] = frozenset()
    if not scopes.isdisjoint(WRITES):
        write = frozenset(layer for layer in grant.write_layers if membership.may_write(layer))
    return Grant(
        id=grant.id,
        scopes=scopes,
        read_layers=frozenset(layer for layer in grant.read_layers if membership.may_read(layer)),
        write_layers=write,
        write_layer=grant.write_layer if grant.write_layer in write or EVERY_LAYER in write else None,
    )


def unreadable(read: Collection[str], write: Iterable[str]) -> list[str]:
    """Layers to write that would not be read: a grant may hold none, since a write judges by what it reads."""
    return [] if EVERY_LAYER in read else sorted(set(write) - set(read))


def named_layers(grant: Grant) -> frozenset[str]:
    """The layers that the grant calls by name, and which exist from now on."""
    return (grant.read_layers | grant.write_layers) - {EVERY_LAYER, TENANT_WIDE}


def layers_from_names(names: Iterable[str]) -> tuple[str, ...]:
    """Layers as the data spells them, in the order given, ``*`` kept.

    Raises:
        InvalidInput: a name breaks the rule for layers.
    """
    return tuple(dict.fromkeys(_layer(name.strip()) for name in names))


def _layer(name: str) -> str:
    if name == EVERY_LAYER:
        return name
    layer = layer_from_name(name)
    return layer if layer == TENANT_WIDE and name else check_layer_name(name)


def _scopes(membership: Membership, scopes: Iterable[str] | None, *, operator: bool) -> frozenset[str]:
    allowed = allowed_scopes(membership.role, operator=operator)
    if scopes is None:
        return allowed
    wanted = frozenset(scopes)
    unknown = sorted(wanted - set(SCOPES))
    if unknown:
        raise InvalidInput(f"there is no scope {unknown[0]!r}; there are: {', '.join(SCOPES)}.", field="scope")
    beyond = sorted(wanted - allowed)
    if beyond:
        raise Forbidden(
            f"a {membership.role.value} of this tenant cannot give {', '.join(beyond)}. Nothing was changed."
        )
    return wanted


def _check_held(wanted: Grant, held: Grant) -> None:
    refused = (wanted.read_layers - held.read_layers) | (wanted.write_layers - held.write_layers)
    if refused:
        raise Forbidden(
            f"this user may not give away the layer {_listed(refused)}; an owner grants it first. Nothing was changed."
        )
    unread = unreadable(wanted.read_layers, wanted.write_layers)
    if unread:
        raise InvalidInput(
            f"what is written must be readable: add --read-layer for {_listed(unread)}, name another --write-layer, or "
            "limit the token with --scope to reading. Nothing was changed.",
            field="write_layer",
        )


def _listed(layers: Iterable[str]) -> str:
    return ", ".join(sorted(layer_name(layer) for layer in layers))
