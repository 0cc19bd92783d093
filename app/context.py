"""What travels with a request. Importable by every room, imports none."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

__all__ = [
    "EVERY_LAYER",
    "NO_RULES",
    "OVERRUN_SECONDS",
    "SCOPES",
    "TENANT_WIDE",
    "TENANT_WIDE_NAME",
    "Deadline",
    "Grant",
    "Principal",
    "RequestContext",
    "Role",
    "Scope",
    "TenantRules",
    "layer_from_name",
    "layer_name",
]

TENANT_WIDE: Final = ""
"""The layer of records that the whole tenant sees, as the data spells it."""

TENANT_WIDE_NAME: Final = "tenant"
"""The same layer, as people write it."""

OVERRUN_SECONDS: Final = 5.0
"""How long after its deadline a call may still hold its slot: a client that reads slowly must not keep it."""

EVERY_LAYER: Final = "*"
"""In a grant: every layer of the tenant, later ones too (partition rule 3)."""

SCOPES: Final = (
    "memory:read",
    "memory:write",
    "knowledge:read",
    "knowledge:write",
    "ledger:read",
    "ledger:write",
    "ingest:write",
    "admin",
)


def layer_name(layer: str) -> str:
    """Spell a layer for people."""
    return layer or TENANT_WIDE_NAME


def layer_from_name(name: str) -> str:
    """Spell a layer for the data."""
    return TENANT_WIDE if name == TENANT_WIDE_NAME else name


class Role(StrEnum):
    """What a user is in a tenant; a reader can never be granted a write."""

    OWNER = "owner"
    MEMBER = "member"
    READER = "reader"


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on the monotonic clock (seconds) by which work must be done."""

    at: float

    @classmethod
    def after(cls, seconds: float) -> Deadline:
        """The moment ``seconds`` from now."""
        return cls(time.monotonic() + seconds)

    def remaining(self) -> float:
        """Seconds left, never negative."""
        return max(0.0, self.at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether no time is left."""
        return self.remaining() == 0.0

    def sooner(self, seconds: float) -> Deadline:
        """The earlier of this deadline and ``seconds`` from now."""
        return Deadline(min(self.at, time.monotonic() + seconds))


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person gave a client: scopes and layers. Layers as the data spells them, or ``EVERY_LAYER``."""

    id: str
    scopes: frozenset[str]
    read_layers: frozenset[str]
    write_layers: frozenset[str]
    write_layer: str | None
    """Where a write goes that names no layer; None when the grant writes nowhere."""


@dataclass(frozen=True, slots=True)
class TenantRules:
    """What was set for one tenant alone; None: as the gateway is configured."""

    calls_per_minute: float | None = None
    burst: int | None = None
    quota_entities: int | None = None
    quota_relations: int | None = None
    exports_kept: int | None = None
    """Newest exports of each person that stay."""
    export_days: int | None = None
    """After how many days an export goes."""
    single_valued: frozenset[str] | None = None
    """Relations of which an entity has one at a time."""
    behaviour: tuple[tuple[str, float], ...] | None = None
    """How its memory behaves: pairs of a key of config.json and a number, in order of the keys."""


NO_RULES: Final = TenantRules()
"""A tenant like any other."""


@dataclass(frozen=True, slots=True)
class Principal:
    """Who calls, for which tenant, and how far they may go. Made only from a verified token."""

    subject: str
    """Stable id of the user or service account; never the e-mail address."""
    client: str
    """Hash of the client's id, which may be long; "local" for a local client."""
    tenant: str
    """Stable control id of the tenant."""
    tenant_name: str
    data: str
    """Data id: what the ``tenant`` property of the tenant's graph records holds at present."""
    role: Role
    operator: bool
    """Member of the admin tenant, calling with a grant for that tenant."""
    grant: Grant
    tenant_layers: frozenset[str] = frozenset({TENANT_WIDE})
    """All layers of the tenant that exist now, tenant-wide included: what ``EVERY_LAYER`` stands for."""
    rules: TenantRules = NO_RULES

    def readable(self) -> frozenset[str]:
        """Layers that this principal may read."""
        return self._expand(self.grant.read_layers)

    def writable(self) -> frozenset[str]:
        """Layers that this principal may write; a layer that cannot be read cannot be written."""
        return self._expand(self.grant.write_layers) & self.readable()

    def _expand(self, layers: frozenset[str]) -> frozenset[str]:
        return self.tenant_layers if EVERY_LAYER in layers else layers


@dataclass(frozen=True, slots=True)
class Scope:
    """What one call may touch: the only thing a ``TenantSession`` is opened with.

    ``layers`` is what the call reads, ``writable`` where it may change what it reads, ``write_layer`` where new
    records go. An empty ``layers`` reads nothing; it never means "all" and never becomes tenant-wide.
    """

    tenant: str
    """Data id of the tenant. Never empty."""
    layers: tuple[str, ...]
    writable: tuple[str, ...]
    write_layer: str | None
    subject: str

    def __post_init__(self) -> None:
        if not self.tenant:
            raise ValueError("a scope without a tenant does not exist")
        if self.write_layer is not None and self.write_layer not in self.writable:
            raise ValueError("the write layer must be writable")


@dataclass(frozen=True, slots=True)
class RequestContext:
    """State of one request, complete once ``limits`` let it pass; each stage replaces what it learnt."""

    request_id: str
    address: str
    """Public base address that the request came to, without a trailing slash; "stdio" for a local client."""
    peer: str = ""
    """Network address of the client, from the trusted proxy where there is one. For logs, never for identity."""
    principal: Principal | None = None
    tool: str | None = None
    deadline: Deadline | None = None
    again: Callable[[], Principal] | None = None
    """Judges the caller's token anew, for a request that took long to arrive; raises what the stages refuse with."""

    def identified(self, principal: Principal, again: Callable[[], Principal] | None = None) -> RequestContext:
        """The same request, its caller known."""
        return replace(self, principal=principal, again=again)

    def calling(self, tool: str | None) -> RequestContext:
        """The same request, its tool known."""
        return replace(self, tool=tool)

    def due(self, deadline: Deadline) -> RequestContext:
        """The same request with its deadline."""
        return replace(self, deadline=deadline)
