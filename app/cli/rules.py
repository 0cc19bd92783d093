"""Commands about what holds for one tenant alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.people import Json, answer, do, tenants

__all__ = ["tenant_behaviour", "tenant_limits", "tenant_single_valued", "tenants"]

Number = Annotated[float | None, typer.Option(min=0, help="0 brings back what is configured.")]
EXPORTS_KEPT = "Newest exports of each person that stay; 0 brings back what is configured."
EXPORT_DAYS = "Days after which an export goes; 0 brings back what is configured."


@tenants.command("limits")
def tenant_limits(
    name: Annotated[str, typer.Argument(help="Name of the tenant.")],
    calls_per_minute: Number = None,
    burst: Number = None,
    entities: Number = None,
    relations: Number = None,
    exports_kept: Annotated[float | None, typer.Option(min=0, max=30, help=EXPORTS_KEPT)] = None,
    export_days: Annotated[float | None, typer.Option(min=0, help=EXPORT_DAYS)] = None,
    as_json: Json = False,
) -> None:
    """Show or set limits of one tenant; every gateway follows within 5 seconds."""
    given = {
        "calls_per_minute": calls_per_minute,
        "burst": burst,
        "quota_entities": entities,
        "quota_relations": relations,
        "exports_kept": exports_kept,
        "export_days": export_days,
    }
    changes = {limit: value or None for limit, value in given.items() if value is not None}
    found = do(lambda administration: administration.limit_tenant(name, changes))
    answer(found, _words(found), as_json)


@tenants.command("single-valued")
def tenant_single_valued(
    name: Annotated[str, typer.Argument(help="Name of the tenant.")],
    relation: Annotated[
        list[str] | None, typer.Option(help="A relation that an entity has one of at a time; repeatable.")
    ] = None,
    default: Annotated[bool, typer.Option("--default", help="Bring back the usual list.")] = False,
    none: Annotated[bool, typer.Option("--none", help="No relation at all.")] = False,
    as_json: Json = False,
) -> None:
    """Show or set of which relations a newer value ends the older one."""
    if bool(relation) + default + none > 1:
        raise typer.BadParameter("give either --relation, or --default, or --none.")
    change = bool(relation) or default or none
    wanted = None if default else (relation or [])
    found = do(lambda administration: administration.single_valued(name, wanted, change=change))
    words = " ".join(found["single_valued"]) or "none"
    answer(found, f"{found['name']}: {words}{' (usual list)' if found['default'] else ''}", as_json)


@tenants.command("behaviour")
def tenant_behaviour(
    name: Annotated[str, typer.Argument(help="Name of the tenant.")],
    given: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=NUMBER", help="A key of config.json; repeatable.")
    ] = None,
    default: Annotated[
        list[str] | None, typer.Option("--default", metavar="KEY", help="Bring back what is configured; repeatable.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show or set how the memory of one tenant behaves; docs/SETTINGS.md lists the keys."""
    changes: dict[str, float | None] = dict.fromkeys(default or ())
    for each in given or ():
        key, _, number = each.partition("=")
        try:
            changes[key.strip()] = float(number)
        except ValueError:
            raise typer.BadParameter(f"{each!r} is not of the form query.default_limit=50.") from None
    found = do(lambda administration: administration.behaviour(name, changes))
    own: Mapping[str, float] = found["behaviour"]
    words = ", ".join(f"{key} {value:g}" for key, value in own.items())
    answer(found, f"{found['name']}: {words or 'as configured'}", as_json)


def _words(found: Mapping[str, Any]) -> str:
    limits: Mapping[str, float | None] = found["limits"]
    set_ = ", ".join(f"{limit} {value:g}" for limit, value in limits.items() if value is not None)
    return f"{found['name']}: {set_ or 'as configured'}"
