"""How a person signs in: passkeys, password, recovery codes, and the browsers that are signed in.

What changes the ways in demands a sign-in of a moment ago: a browser that was left open is not enough.
"""

from __future__ import annotations

import time
from typing import Final

from starlette.responses import Response

from app.console.desk import Desk
from app.console.once import Shown
from app.errors import InvalidInput, NotFound
from app.oauth.login.passkeys import enrol_form
from app.oauth.login.passwords import MIN_PASSWORD, check_password
from app.oauth.login.provider_page import connect_link
from app.oauth.login.welcome import sign_in_again
from app.oauth.secrets import digest

__all__ = [
    "change_password",
    "end_others",
    "end_session",
    "make_codes",
    "remove_passkey",
    "rename_passkey",
    "security",
]

HOME: Final = "/console/security"


async def security(desk: Desk) -> Response:
    """Every way in, on one page."""
    console, user = desk.console, desk.user.id
    recent = desk.visit.recent
    return desk.show(
        "security",
        scripted=True,
        recent=recent,
        connect=await connect_link(desk.visit, back=HOME) if recent else "",
        enrol=await enrol_form(desk.visit, back=HOME) if recent else "",
        passkeys=await console.passkeys.of_user(user),
        codes=await console.recovery.left(user),
        has_password=await console.services.passwords.known(user),
        shortest=MIN_PASSWORD,
        sessions=await console.services.browser.sessions_of(user, time.time()),
        this=digest(desk.visit.token),
    )


async def change_password(desk: Desk) -> Response:
    """Set another password; every other browser is signed out."""
    if not desk.visit.recent:
        return sign_in_again(HOME)
    services, form = desk.console.services, desk.form
    if form.one("password") != form.one("again"):
        raise InvalidInput("The two passwords differ. Type the same one twice. Nothing was changed.")
    password = check_password(form.one("password") or "", desk.user.email)
    await services.passwords.set(desk.user.id, password)
    await services.sign_out_everywhere(desk.user.id, keep=digest(desk.visit.token))
    await desk.note("password.set", target=desk.user.id)
    return desk.go(HOME, "password")


async def make_codes(desk: Desk) -> Response:
    """New recovery codes, shown once; the old ones end."""
    if not desk.visit.recent:
        return sign_in_again(HOME)
    codes = await desk.console.recovery.make(desk.user.id)
    return await desk.show_once(
        Shown(
            title="Your recovery codes",
            about="Each signs you in once when password and passkeys are out of reach. Print them or keep them in a "
            "password manager; codes that you had before are worthless now.",
            lines=codes,
            back=HOME,
        )
    )


async def rename_passkey(desk: Desk) -> Response:
    """Call a passkey something else."""
    name = " ".join((desk.form.one("name") or "").split())
    if not 1 <= len(name) <= 64 or not name.isprintable():
        raise InvalidInput("A passkey's name has 1 to 64 printable characters. Nothing was changed.")
    if not await desk.console.passkeys.rename(desk.user.id, desk.part("passkey"), name):
        raise NotFound("There is no such passkey of yours. Nothing was changed.")
    await desk.note("passkey.rename", target=desk.part("passkey"))
    return desk.go(HOME, "renamed")


async def remove_passkey(desk: Desk) -> Response:
    """Take a passkey away."""
    if not desk.visit.recent:
        return sign_in_again(HOME)
    if not await desk.console.passkeys.remove(desk.user.id, desk.part("passkey")):
        raise NotFound("There is no such passkey of yours. Nothing was changed.")
    await desk.note("passkey.remove", target=desk.part("passkey"))
    return desk.go(HOME, "removed")


async def end_session(desk: Desk) -> Response:
    """Sign another browser of the person out."""
    if not await desk.console.services.browser.end_session_of(desk.user.id, desk.part("session")):
        raise NotFound("You are not signed in there any more. Nothing was changed.")
    await desk.note("session.end", target=desk.user.id)
    return desk.go(HOME, "ended")


async def end_others(desk: Desk) -> Response:
    """Sign every browser of the person out but this one."""
    await desk.console.services.sign_out_everywhere(desk.user.id, keep=digest(desk.visit.token))
    await desk.note("session.end", target=desk.user.id)
    return desk.go(HOME, "ended")
