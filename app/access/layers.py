"""What a call may touch: layers (partition rules 1–3) and tools, from a principal's role and grant.

Nothing here ever widens: an empty remainder reads nothing, and never turns into tenant-wide.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from app.context import SCOPES, TENANT_WIDE, Principal, Role, Scope, layer_from_name, layer_name
from app.contract import Tool
from app.errors import Forbidden, InsufficientScope, InvalidInput

__all__ = [
    "ADMIN_SCOPE",
    "allowed_scopes",
    "refuse_unreachable",
    "require_operator",
    "require_scope",
    "scope_for",
    "visible",
]

ADMIN_SCOPE: Final = "admin"
WRITE_SUFFIX: Final = ":write"


def allowed_scopes(role: Role, *, operator: bool) -> frozenset[str]:
    """Scopes that a person of this role can ever grant: a reader no write, only an operator ``admin``."""
    return frozenset(
        scope
        for scope in SCOPES
        if (operator or scope != ADMIN_SCOPE) and (role is not Role.READER or not scope.endswith(WRITE_SUFFIX))
    )


def visible(tool: Tool, principal: Principal) -> bool:
    """Whether ``tools/list`` shows the tool: the role could reach it, whatever this token was granted."""
    if tool.operators_only and not principal.operator:
        return False
    return tool.scope in allowed_scopes(principal.role, operator=principal.operator)


def refuse_unreachable(tool: Tool, principal: Principal) -> None:
    """Let pass a tool that the role can reach.

    Raises:
        Forbidden: it never can; the message says what to use or whom to ask instead.
    """
    if visible(tool, principal):
        return
    if tool.operators_only or tool.scope == ADMIN_SCOPE:
        instead = f" {tool.instead}" if tool.instead else ""
        raise Forbidden(f"{tool.name} is for the operators of this gateway.{instead} Nothing was applied.")
    raise Forbidden(
        f"{tool.name} changes records, and your role in this tenant is {principal.role.value}: it can only read. "
        "Ask an owner of the tenant for the role member. Nothing was applied."
    )


def require_scope(tool: Tool, principal: Principal) -> None:
    """Let pass a call whose token has the tool's scope.

    Raises:
        InsufficientScope: it lacks it. ``scopes`` names what was granted along with what is missing: clients that ask
            for exactly the challenged scopes then lose nothing.
    """
    if tool.scope not in principal.grant.scopes:
        raise InsufficientScope(
            f"{tool.name} needs the scope {tool.scope}, which this connection was not granted; connect again and "
            "allow it. Nothing was applied.",
            scopes=principal.grant.scopes | {tool.scope},
        )


def require_operator(principal: Principal, what: str, instead: str) -> None:
    """Let pass an argument or tool of operators: a grant for the admin tenant that has the scope ``admin``.

    Raises:
        Forbidden: the caller is no operator; ``instead`` says what others do.
        InsufficientScope: the connection was not granted ``admin``.
    """
    if not principal.operator:
        raise Forbidden(f"{what} is for the operators of this gateway. {instead} Nothing was applied.")
    if ADMIN_SCOPE not in principal.grant.scopes:
        raise InsufficientScope(
            f"{what} needs the scope {ADMIN_SCOPE}, which this connection was not granted; connect again and allow it. "
            "Nothing was applied.",
            scopes=principal.grant.scopes | {ADMIN_SCOPE},
        )


def scope_for(principal: Principal, requested: Sequence[str] | None, *, writes: bool) -> Scope:
    """What one call reads and writes.

    ``requested`` are layer names as people write them (``tenant`` is tenant-wide), None means all that were granted.
    A read drops what was not granted and keeps tenant-wide where that was granted. A write goes to the one layer it
    names, and then reads that one and tenant-wide (rule 7) and changes nothing elsewhere. Naming none, it goes to the
    grant's own, may judge on all readable layers and change all writable ones (rule 9).

    Raises:
        Forbidden: a write to a layer that was not granted, or with a grant that writes nowhere.
        InvalidInput: a write that names several layers, or none by an empty list.
    """
    return _write_scope(principal, requested) if writes else _read_scope(principal, requested)


def _read_scope(principal: Principal, requested: Sequence[str] | None) -> Scope:
    readable = principal.readable()
    layers = (
        readable if requested is None else readable & ({layer_from_name(name) for name in requested} | {TENANT_WIDE})
    )
    return _scope(principal, layers, writable=(), write_layer=None)


def _write_scope(principal: Principal, requested: Sequence[str] | None) -> Scope:
    readable = principal.readable()
    writable = principal.writable()
    layer = _write_layer(principal, requested, writable)
    if requested is None:
        return _scope(principal, readable, writable, layer)
    return _scope(principal, readable & {layer, TENANT_WIDE}, {layer}, layer)


def _write_layer(principal: Principal, requested: Sequence[str] | None, writable: frozenset[str]) -> str:
    if requested is None:
        layer = principal.grant.write_layer
        if layer is None or layer not in writable:
            raise Forbidden(
                f"this connection was granted no layer to write to by default. {_remedy(writable)} Nothing was applied."
            )
        return layer
    if len(requested) != 1:
        raise InvalidInput('layers of a write names exactly one layer, for example ["tenant"].', field="layers")
    layer = layer_from_name(requested[0])
    if layer not in writable:
        raise Forbidden(
            f"writing to the layer {requested[0]!r} was not granted to this connection. "
            f"{_remedy(writable)} Nothing was applied."
        )
    return layer


def _remedy(writable: Collection[str]) -> str:
    again = "connect again and choose it on the consent page, or make a token with --write-layer"
    if not writable:
        return f"To write, {again}."
    names = ", ".join(sorted(layer_name(layer) for layer in writable))
    return f"It may write to: {names}. For another one, {again}."


def _scope(principal: Principal, layers: Collection[str], writable: Collection[str], write_layer: str | None) -> Scope:
    return Scope(
        tenant=principal.data,
        layers=tuple(sorted(layers)),
        writable=tuple(sorted(writable)),
        write_layer=write_layer,
        subject=principal.subject,
    )
