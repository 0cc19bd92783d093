"""A person's own pages: what is connected in their name, and where they belong."""

from __future__ import annotations

import time
from typing import Final
from urllib.parse import urlsplit

from starlette.responses import Response

from app.console.desk import Desk
from app.console.once import take
from app.errors import InvalidInput, NotFound
from app.oauth.choosing import boxes
from app.oauth.consent import Choice, as_ticked, granted, offer, read_choice
from app.oauth.service import Place
from app.store.control.grants import GrantRecord

__all__ = ["change_program", "disconnect", "overview", "program", "programs", "shown", "tenants"]

GONE: Final = "There is no such connection in your name. Nothing was changed."


async def overview(desk: Desk) -> Response:
    """Where to begin: connecting a program, and what there is."""
    console, user = desk.console, desk.user.id
    tokens = [token for token in await console.accounts.tokens.of_user(user) if token.alive]
    return desk.show(
        "overview",
        mcp=f"{desk.visit.address}/mcp",
        reachable=urlsplit(desk.visit.address).hostname != "localhost",
        programs=len(await console.services.grants.of_user(user)),
        tokens=len(tokens),
        passkeys=len(await console.passkeys.of_user(user)),
        codes=await console.recovery.left(user),
    )


async def shown(desk: Desk) -> Response:
    """A secret that was made a moment ago, for the first look alone."""
    found = await take(desk.console.shown, desk.visit, desk.part("handle"))
    return desk.show("shown", shown=found)


async def programs(desk: Desk) -> Response:
    """The programs that the person connected, the last used first."""
    grants = await desk.console.services.grants.of_user(desk.user.id)
    rows = [{"grant": grant, "place": desk.standing.place(grant.tenant)} for grant in grants]
    return desk.show("programs", rows=rows)


async def program(desk: Desk) -> Response:
    """One connected program: what it may do, to be changed or ended."""
    grant = await _own(desk)
    place = desk.standing.place(grant.tenant)
    return _show(desk, grant, place, granted(grant))


async def change_program(desk: Desk) -> Response:
    """Give a connected program more or less; it stays connected."""
    grant = await _own(desk)
    place = desk.member(grant.tenant)
    offered = offer({*grant.asked, *grant.scopes}, place)
    services = desk.console.services
    try:
        choice = read_choice(desk.form, offered)
        if choice.new_layer is not None:
            await services.tenants.add_layers(place.tenant.id, [choice.new_layer])
    except InvalidInput as error:
        return _show(desk.troubled(error.message, error.status), grant, place, as_ticked(desk.form, offered))
    changed = await services.grants.change(
        grant.id,
        scopes=choice.scopes,
        read_layers=choice.read,
        write_layers=choice.write,
        write_layer=choice.write_layer,
    )
    if not changed:
        raise NotFound(GONE)
    await desk.note("grant.change", tenant=grant.tenant, target=grant.id, scopes=" ".join(sorted(choice.scopes)))
    return desk.go(f"/console/programs/{grant.id}", "changed")


async def disconnect(desk: Desk) -> Response:
    """End a connection."""
    grant = await _own(desk)
    await desk.console.services.grants.revoke(grant.id, reason="the person disconnected it", now=time.time())
    await desk.note("grant.revoke", tenant=grant.tenant, target=grant.id, reason="the person disconnected it")
    return desk.go("/console/programs", "disconnected")


async def tenants(desk: Desk) -> Response:
    """Every tenant that the person belongs to, and what they are there."""
    return desk.show("tenants")


async def _own(desk: Desk) -> GrantRecord:
    grant = await desk.console.services.grants.find(desk.part("grant"))
    if grant is None or grant.user != desk.user.id or grant.revoked_at is not None or grant.expires_at < time.time():
        raise NotFound(GONE)
    return grant


def _show(desk: Desk, grant: GrantRecord, place: Place | None, choice: Choice) -> Response:
    offered = None if place is None else offer({*grant.asked, *grant.scopes}, place)
    choosing = {} if offered is None else boxes(offered, choice)
    return desk.show("program", grant=grant, at=place, choosing=choosing)
