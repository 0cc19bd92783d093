"""What a person may give to a client or token, from what they are in the tenant (partition rules 1 and 3)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from app.access.layers import WRITE_SUFFIX, allowed_scopes
from app.context import EVERY_LAYER, SCOPES, TENANT_WIDE, Grant, layer_from_name, layer_name
from app.errors import Forbidden, InvalidInput
from app.store.control.tenants import check_layer_name
from app.store.control.users import Membership

__all__ = ["layer_names", "layers_from_names", "make_grant", "named_layers"]

WRITES: Final = frozenset(scope for scope in SCOPES if scope.endswith(WRITE_SUFFIX))


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

    None means: all scopes that the role can hold, all layers that the member may read, and writing tenant-wide where
    that is possible. The first write layer is where writes go by default; an owner may name layers that are new.

    Raises:
        InvalidInput: an unknown scope, a bad layer name, or a layer to write that is not read.
        Forbidden: more than the member holds.
    """
    wanted = _scopes(membership, scopes, operator=operator)
    read = membership.read_layers if read_layers is None else frozenset(layers_from_names(read_layers))
    for layer in sorted(read):
        if not (membership.may_read(layer) or layer in membership.read_layers):
            raise Forbidden(f"this member may not read the layer {layer_name(layer)!r}; an owner can give it to them.")
    write = _write_layers(membership, wanted, read, write_layers)
    return Grant(
        id=grant_id,
        scopes=wanted,
        read_layers=read,
        write_layers=frozenset(write),
        write_layer=None if not write else TENANT_WIDE if write[0] == EVERY_LAYER else write[0],
    )


def named_layers(grant: Grant) -> frozenset[str]:
    """The layers that the grant calls by name, and which exist from now on."""
    return (grant.read_layers | grant.write_layers) - {EVERY_LAYER, TENANT_WIDE}


def layers_from_names(names: Iterable[str]) -> tuple[str, ...]:
    """Layers as the data spells them, in the order given, ``*`` kept.

    Raises:
        InvalidInput: a name breaks the rule for layers.
    """
    return tuple(dict.fromkeys(_layer(name.strip()) for name in names))


def layer_names(layers: Iterable[str]) -> list[str]:
    """Layers as people write them, sorted."""
    return sorted(layer_name(layer) for layer in layers)


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
        raise InvalidInput(f"{unknown[0]!r} is no scope; there are: {', '.join(SCOPES)}.", field="scope")
    beyond = sorted(wanted - allowed)
    if beyond:
        raise Forbidden(f"the role {membership.role.value} can never hold the scope {beyond[0]}.")
    return wanted


def _write_layers(
    membership: Membership, scopes: frozenset[str], read: frozenset[str], names: Sequence[str] | None
) -> tuple[str, ...]:
    if names is None:
        possible = membership.may_write(TENANT_WIDE) and _covers(read, TENANT_WIDE) and not scopes.isdisjoint(WRITES)
        return (TENANT_WIDE,) if possible else ()
    layers = layers_from_names(names)
    for layer in layers:
        if not membership.may_write(layer):
            raise Forbidden(f"this member may not write the layer {layer_name(layer)!r}; an owner can give it to them.")
        if not _covers(read, layer):
            raise InvalidInput(
                f"the layer {layer_name(layer)!r} is to be written but not read; name it among the layers to read too.",
                field="write_layer",
            )
    if layers and scopes.isdisjoint(WRITES):
        raise InvalidInput(
            "a layer to write was named, but no scope that writes; add one, for example memory:write.", field="scope"
        )
    return layers


def _covers(read: frozenset[str], layer: str) -> bool:
    return EVERY_LAYER in read or layer in read
