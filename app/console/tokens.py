"""A person's personal access tokens: for agents without a browser."""

from __future__ import annotations

from typing import Final

from starlette.responses import Response

from app.console.desk import Desk, number_of
from app.console.once import Shown
from app.context import layer_name
from app.errors import NotFound
from app.oauth.choosing import boxes
from app.oauth.consent import Choice, Offer, as_ticked, offer, read_choice
from app.oauth.personal import DEFAULT_DAYS, LONGEST_DAYS
from app.oauth.service import Place

__all__ = ["LIVES", "make_token", "new_token", "ordered_names", "revoke_token", "tokens"]

LIVES: Final = (7, 30, DEFAULT_DAYS, 180, LONGEST_DAYS)
"""Days that the form offers."""


async def tokens(desk: Desk) -> Response:
    """The person's tokens, those that are valid first."""
    found = await desk.console.accounts.tokens.of_user(desk.user.id)
    found.sort(key=lambda token: (not token.alive, -token.created))
    rows = [{"token": token, "place": desk.standing.place(token.tenant)} for token in found]
    return desk.show("tokens", rows=rows)


async def new_token(desk: Desk) -> Response:
    """The form for a token, in one tenant at a time."""
    place = _place(desk)
    offered = offer(place.scopes, place)
    choice = as_ticked(desk.form, offered) if desk.problem else _first(offered)
    return desk.show(
        "new_token",
        at=place,
        places=[place for place in desk.standing.places if place.tenant.state.value == "active"],
        days=number_of(desk.form.one("days"), DEFAULT_DAYS),
        lives=LIVES,
        choosing=boxes(offered, choice),
    )


async def make_token(desk: Desk) -> Response:
    """Make a token and show it once."""
    place = desk.member(desk.form.one("tenant"))
    choice = read_choice(desk.form, offer(place.scopes, place))
    made = await desk.console.accounts.create_token(
        desk.user,
        place.tenant,
        scopes=sorted(choice.scopes),
        read_layers=[layer_name(layer) for layer in sorted(choice.read)],
        write_layers=ordered_names(choice),
        days=number_of(desk.form.one("days"), 0),
        actor=desk.user.id,
    )
    return await desk.show_once(
        Shown(
            title="Your new token",
            about="Copy it now and keep it where your agent finds it: only its id is stored here.",
            lines=[made.text],
            back="/console/tokens",
            tenant=place.tenant.name,
        )
    )


async def revoke_token(desk: Desk) -> Response:
    """End one of the person's tokens."""
    wanted = desk.part("token")
    if wanted not in {token.id for token in await desk.console.accounts.tokens.of_user(desk.user.id)}:
        raise NotFound("There is no such token of yours. Nothing was changed.")
    await desk.console.accounts.revoke_token(wanted, actor=desk.user.id)
    return desk.go("/console/tokens", "revoked")


def ordered_names(choice: Choice) -> list[str]:
    """The layers to write, as people write them, the one for new memories first."""
    first = [] if choice.write_layer is None else [choice.write_layer]
    return [layer_name(layer) for layer in [*first, *sorted(choice.write - set(first))]]


def _place(desk: Desk) -> Place:
    wanted = desk.form.one("tenant") or desk.query.one("tenant")
    active = [place for place in desk.standing.places if place.tenant.state.value == "active"]
    if wanted is None and active:
        return active[0]
    return desk.member(wanted)


def _first(offered: Offer) -> Choice:
    """What is ticked at first: everything but operating the gateway, which is rarely meant."""
    read = {"*"} if offered.every_read else set(offered.read)
    write = {"*"} if offered.every_write else set(offered.write) & read
    return Choice(
        frozenset(offered.scopes) - {"admin"} or frozenset(offered.scopes),
        frozenset(read),
        frozenset(write),
        next(iter(offered.write), None),
    )
