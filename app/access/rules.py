"""Changing what holds for one tenant alone: its limits, how its memory behaves, and its single-valued relations."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.access.accounts import COMMAND, Accounts
from app.config_file import BEHAVIOUR, RATES, bounds
from app.errors import InvalidInput
from app.settings import MemorySettings
from app.store.control.tenants import Tenant

__all__ = ["LIMITS", "set_behaviour", "set_limits", "set_single_valued"]

LIMITS: Final[Mapping[str, tuple[float, float]]] = {
    "calls_per_minute": (1, 1_000_000),
    "burst": (1, 1_000_000),
    "quota_entities": (1, 100_000_000),
    "quota_relations": (1, 1_000_000_000),
    "exports_kept": (1, 30),
    "export_days": (1, 36_500),
}
"""What can be set for one tenant, and from what to what."""


async def set_limits(
    accounts: Accounts, which: str | Tenant, limits: Mapping[str, float | None], *, actor: str = COMMAND
) -> Tenant:
    """Set limits of one tenant; None brings back what is configured, those that are not named stay.

    Raises:
        InvalidInput: an unknown limit or a value out of range; nothing was changed. NotFound: no such tenant.
    """
    for limit, value in limits.items():
        if limit not in LIMITS:
            raise InvalidInput(f"{limit!r} is no limit; there are {', '.join(LIMITS)}.", field="limit")
        least, most = LIMITS[limit]
        if value is not None and not least <= value <= most:
            raise InvalidInput(
                f"{limit} is a number from {least:,.0f} to {most:,.0f}. Nothing was changed.", field=limit
            )
    tenant = await accounts.tenant(which)
    held: dict[str, Any] = {limit: _whole(limit, value) for limit, value in limits.items()}
    changed = await accounts.tenants.set_rules(tenant.id, replace(tenant.rules, **held))
    detail = {limit: "default" if value is None else f"{value:g}" for limit, value in limits.items()}
    await accounts.audit.append(tenant=tenant.id, actor=actor, action="tenant.limits", target=tenant.id, detail=detail)
    return changed or tenant


async def set_behaviour(
    accounts: Accounts, which: str | Tenant, changes: Mapping[str, float | None], *, actor: str = COMMAND
) -> Tenant:
    """Set how the memory of one tenant behaves, by keys of config.json; None brings back what is configured.

    Raises:
        InvalidInput: an unknown key or a value out of range; nothing was changed. NotFound: no such tenant.
    """
    for key, value in changes.items():
        if key not in BEHAVIOUR and not (key.startswith(RATES) and key.removeprefix(RATES).isidentifier()):
            known = ", ".join([*BEHAVIOUR, f"{RATES}<Type>"])
            raise InvalidInput(f"{key!r} is no key of behaviour; there are {known}.", field="key")
        within = bounds(MemorySettings, key)
        if value is not None and value not in within:
            kind = "whole number" if within.whole else "number"
            raise InvalidInput(
                f"{key} is a {kind} from {within.least:g} to {within.most:g}. Nothing was changed.", field=key
            )
    tenant = await accounts.tenant(which)
    held = {key: value for key, value in {**dict(tenant.rules.behaviour or ()), **changes}.items() if value is not None}
    rules = replace(tenant.rules, behaviour=tuple(sorted(held.items())) or None)
    changed = await accounts.tenants.set_rules(tenant.id, rules)
    detail = {key: "default" if value is None else f"{value:g}" for key, value in changes.items()}
    await accounts.audit.append(
        tenant=tenant.id, actor=actor, action="tenant.behaviour", target=tenant.id, detail=detail
    )
    return changed or tenant


async def set_single_valued(
    accounts: Accounts, name: str, relations: Iterable[str] | None, *, actor: str = COMMAND
) -> Tenant:
    """Say of which relations an entity of this tenant has one at a time; None brings back the usual list.

    Raises:
        NotFound: no such tenant.
    """
    tenant = await accounts.tenant(name)
    listed = None if relations is None else frozenset(relations)
    changed = await accounts.tenants.set_rules(tenant.id, replace(tenant.rules, single_valued=listed))
    words = "default" if listed is None else " ".join(sorted(listed))[:500]
    await accounts.audit.append(
        tenant=tenant.id, actor=actor, action="tenant.single_valued", target=tenant.id, detail={"relations": words}
    )
    return changed or tenant


def _whole(limit: str, value: float | None) -> float | None:
    return value if value is None or limit == "calls_per_minute" else int(value)
