"""Tenants: a name that people see, a control id that never changes, a data id that the graph records carry."""

from __future__ import annotations

import json
import re
import secrets
import time
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from app.context import EVERY_LAYER, NO_RULES, TENANT_WIDE, TENANT_WIDE_NAME, TenantRules
from app.errors import Conflict, InvalidInput, StartError
from app.store.control.rules import read_rules, write_rules
from app.store.session import ControlSession, Writing
from app.store.statement import statement

__all__ = [
    "HOME_TENANT",
    "MOST_LAYERS",
    "Tenant",
    "TenantState",
    "Tenants",
    "add_layers_in",
    "check_layer_name",
    "check_tenant_name",
]

HOME_TENANT: Final = "home"
"""Name of the first tenant for memory, made with the database beside the operators' own."""

MOST_LAYERS: Final = 1000
"""Of a tenant: their names are in every export and in the memory of every replica."""

_NAME: Final = re.compile(r"[^\W_](?:[\w .-]{0,62}[^\W_])?\Z")
_LAYER: Final = re.compile(r"[^\W_][\w:./-]{0,63}\Z")
_RESERVED_LAYERS: Final = frozenset({TENANT_WIDE_NAME, "global", EVERY_LAYER, TENANT_WIDE})

_FIELDS: Final = (
    "t.id AS id, t.name AS name, t.data AS data, t.state AS state, t.layers AS layers, t.admin AS admin, "
    "t.rules AS rules"
)

CREATE = statement(
    "tenants.create",
    f"""
    MERGE (t:_Tenant {{key: $key}})
    ON CREATE SET t.id = $id, t.name = $name, t.data = $data, t.state = 'active', t.layers = [], t.admin = $admin,
                  t.created = $now
    RETURN {_FIELDS}
    """,
    writes=True,
    control=True,
)
BY_ID = statement("tenants.by_id", f"MATCH (t:_Tenant {{id: $id}}) RETURN {_FIELDS}", control=True)
BY_NAME = statement("tenants.by_name", f"MATCH (t:_Tenant {{key: $key}}) RETURN {_FIELDS}", control=True)
ALL = statement("tenants.all", f"MATCH (t:_Tenant) RETURN {_FIELDS} ORDER BY t.key, t.id", control=True)
# The write lock is taken before the state is read again: what was deleted meanwhile stays deleted.
SET_STATE = statement(
    "tenants.set_state",
    f"""
    MATCH (t:_Tenant {{id: $id}}) WHERE t.state <> 'deleted'
    SET t.touched = $now
    WITH t WHERE t.touched = $now AND t.state <> 'deleted'
    SET t.state = CASE WHEN $state = 'active' AND t.frozen THEN 'moving' ELSE $state END
    RETURN {_FIELDS}
    """,
    writes=True,
    control=True,
)
RENAME = statement(
    "tenants.rename",
    f"""
    MATCH (t:_Tenant {{id: $id}}) WHERE t.state <> 'deleted'
    SET t.touched = $now
    WITH t WHERE t.touched = $now AND t.state <> 'deleted'
    SET t.key = $key, t.name = $name
    RETURN {_FIELDS}
    """,
    writes=True,
    control=True,
)
# The key of a name holds no slash, so a deleted tenant's name can be given again.
DELETE = statement(
    "tenants.delete",
    f"MATCH (t:_Tenant {{id: $id}}) SET t.state = 'deleted', t.key = '/' + t.id RETURN {_FIELDS}",
    writes=True,
    control=True,
)
NOTE_ERASURE = statement(
    "tenants.note_erasure",
    """
    MATCH (t:_Tenant {id: $id}) WHERE t.state = 'deleted'
    SET t.erasing = coalesce(t.erasing, $counted)
    RETURN t.erasing AS counted
    """,
    writes=True,
    control=True,
)
SET_RULES = statement(
    "tenants.set_rules",
    f"MATCH (t:_Tenant {{id: $id}}) SET t.rules = $rules RETURN {_FIELDS}",
    writes=True,
    control=True,
)
ADD_LAYERS = statement(
    "tenants.add_layers",
    f"""
    MATCH (t:_Tenant {{id: $id}})
    SET t.touched = $now
    WITH t, size(t.layers) AS before
    SET t.layers = t.layers + [layer IN $names WHERE NOT layer IN t.layers]
    RETURN {_FIELDS}, before
    """,
    writes=True,
    control=True,
)


class TenantState(StrEnum):
    """What a tenant's tokens are good for at present."""

    ACTIVE = "active"
    SUSPENDED = "suspended"
    DELETED = "deleted"
    MOVING = "moving"
    """Its data is being exchanged: reads go on, writes are refused for a moment (partition rule 22)."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant as the control data knows it. ``layers`` are the named ones; tenant-wide always exists."""

    id: str
    name: str
    data: str
    state: TenantState
    layers: frozenset[str]
    admin: bool
    """The operators' own tenant."""
    rules: TenantRules = NO_RULES

    @property
    def in_use(self) -> bool:
        """Whether anything may be done in its name at present."""
        return self.state not in (TenantState.SUSPENDED, TenantState.DELETED)

    def all_layers(self) -> frozenset[str]:
        """Every layer of the tenant, tenant-wide included, as the data spells them."""
        return self.layers | {TENANT_WIDE}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Tenant:
        """A tenant from a row of the statements above."""
        return cls(
            id=row["id"],
            name=row["name"],
            data=row["data"],
            state=TenantState(row["state"]),
            layers=frozenset(row["layers"]),
            admin=bool(row["admin"]),
            rules=read_rules(row.get("rules")),
        )


def check_tenant_name(name: str) -> str:
    """The name in normal form.

    Raises:
        InvalidInput: not 1 to 64 letters, digits, spaces, dots, hyphens or underscores, or an end that is neither
            letter nor digit.
    """
    normal = unicodedata.normalize("NFKC", name).strip()
    if not _NAME.match(normal):
        raise InvalidInput(
            "a tenant's name has 1 to 64 letters, digits, spaces, dots, hyphens or underscores, and begins and ends "
            "with a letter or digit, for example `family-archive`.",
            field="name",
        )
    return normal


def check_layer_name(name: str) -> str:
    """The layer's name in normal form.

    Raises:
        InvalidInput: a reserved word, or not 1 to 64 letters, digits or ``_ : . / -`` after a letter or digit.
    """
    normal = unicodedata.normalize("NFKC", name).strip()
    if normal.casefold() in _RESERVED_LAYERS:
        raise InvalidInput(f"{normal!r} is a reserved word and cannot name a layer; choose another.", field="layer")
    if not _LAYER.match(normal):
        raise InvalidInput(
            "a layer's name has 1 to 64 letters, digits or `_ : . / -` and begins with a letter or digit, for example "
            "`work` or `project:atlas`.",
            field="layer",
        )
    return normal


class Tenants:
    """The store of tenants."""

    def __init__(self, control: ControlSession) -> None:
        self._control = control

    async def create(self, name: str) -> Tenant:
        """Make a tenant.

        Raises:
            InvalidInput: the name breaks the rule. Conflict: a tenant of that name exists.
        """
        tenant, created = await self._merge(name, admin=False)
        if not created:
            raise Conflict(f"a tenant named {tenant.name!r} exists already; choose another name. Nothing was changed.")
        return tenant

    async def ensure(self, name: str, *, admin: bool = False) -> Tenant:
        """The tenant of that name, made if it is missing; two replicas at once agree on one.

        Raises:
            StartError: an ordinary tenant bears the name meant for the operators' own, or the reverse.
        """
        tenant, _ = await self._merge(name, admin=admin)
        if tenant.admin is not admin:
            kind = "an ordinary tenant" if admin else "the operators' tenant"
            raise StartError(f"{tenant.name!r} is {kind} in this database; set GRAPHKEEP_ADMIN_TENANT to another name.")
        return tenant

    async def by_id(self, tenant_id: str) -> Tenant | None:
        """The tenant with this control id."""
        rows = await self._control.read(BY_ID, id=tenant_id)
        return Tenant.of(rows[0]) if rows else None

    async def by_name(self, name: str) -> Tenant | None:
        """The tenant with this name, in any case."""
        rows = await self._control.read(BY_NAME, key=_key(name))
        return Tenant.of(rows[0]) if rows else None

    async def all(self) -> list[Tenant]:
        """Every tenant, by name."""
        return [Tenant.of(row) for row in await self._control.read(ALL)]

    async def set_state(self, tenant_id: str, state: TenantState) -> Tenant | None:
        """Change what the tenant's tokens are good for; every replica follows within seconds.

        A deleted tenant stays deleted (None), and its name is free again. One whose data is being exchanged takes
        no writes before that has ended, whoever makes it active.
        """

        async def work(writing: Writing) -> list[dict[str, Any]]:
            if state is TenantState.DELETED:
                return await writing.run(DELETE, id=tenant_id)
            return await writing.run(SET_STATE, id=tenant_id, state=state.value, now=_now())

        rows = await self._control.write(work)
        return Tenant.of(rows[0]) if rows else None

    async def note_erasure(self, tenant_id: str, counted: Mapping[str, Any]) -> dict[str, Any]:
        """Keep what a deleted tenant held before its erasure began; what was kept first is the answer.

        Raises:
            Conflict: another process has finished the erasure.
        """
        text = json.dumps(dict(counted), sort_keys=True)
        rows = await self._control.write(lambda writing: writing.run(NOTE_ERASURE, id=tenant_id, counted=text))
        if not rows:
            raise Conflict("this tenant is erased already. Its certificate lies where that was done.")
        kept: dict[str, Any] = json.loads(rows[0]["counted"])
        return kept

    async def rename(self, tenant_id: str, name: str) -> Tenant | None:
        """Give the tenant another name; its ids, tokens and records stay. None if there is no such tenant.

        Raises:
            InvalidInput: the name breaks the rule. Conflict: another tenant bears it.
        """
        normal = check_tenant_name(name)

        async def work(writing: Writing) -> list[dict[str, Any]]:
            taken = await writing.run(BY_NAME, key=_key(normal))
            if taken and taken[0]["id"] != tenant_id:
                raise Conflict(f"a tenant named {normal!r} exists already; choose another name. Nothing was changed.")
            return await writing.run(RENAME, id=tenant_id, key=_key(normal), name=normal, now=_now())

        rows = await self._control.write(work)
        return Tenant.of(rows[0]) if rows else None

    async def set_rules(self, tenant_id: str, rules: TenantRules) -> Tenant | None:
        """Replace what holds for this tenant alone; every replica follows within seconds."""

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(SET_RULES, id=tenant_id, rules=write_rules(rules))

        rows = await self._control.write(work)
        return Tenant.of(rows[0]) if rows else None

    async def add_layers(self, tenant_id: str, names: Iterable[str]) -> Tenant | None:
        """Make these layers exist (partition rule 1); those that do already stay.

        Raises:
            InvalidInput: as :func:`add_layers_in`.
        """
        wanted = frozenset(names)
        rows = await self._control.write(lambda writing: add_layers_in(writing, tenant_id, wanted))
        return Tenant.of(rows[0]) if rows else None

    async def _merge(self, name: str, *, admin: bool) -> tuple[Tenant, bool]:
        normal = check_tenant_name(name)
        minted = f"tn-{secrets.token_hex(12)}"

        async def work(writing: Writing) -> list[dict[str, Any]]:
            return await writing.run(
                CREATE,
                key=_key(normal),
                id=minted,
                name=normal,
                data=f"d{secrets.token_hex(12)}",
                admin=admin,
                now=_now(),
            )

        tenant = Tenant.of((await self._control.write(work))[0])
        return tenant, tenant.id == minted


async def add_layers_in(writing: Writing, tenant_id: str, names: Iterable[str]) -> list[dict[str, Any]]:
    """Make these layers exist in a transaction that is under way: with what names them, or not at all.

    Raises:
        InvalidInput: a name breaks the rule of :func:`check_layer_name`, or there would be more than MOST_LAYERS.
    """
    checked = sorted({check_layer_name(name) for name in names})
    rows = await writing.run(ADD_LAYERS, id=tenant_id, names=checked, now=_now())
    if rows and len(rows[0]["layers"]) > max(MOST_LAYERS, rows[0]["before"]):
        raise InvalidInput(f"a tenant has at most {MOST_LAYERS:,} layers. Nothing was changed.", field="layer")
    return rows


def _key(name: str) -> str:
    return unicodedata.normalize("NFKC", name).strip().casefold()


def _now() -> int:
    return int(time.time() * 1000)
