"""What every way to sign in ends with: a new session, an audit entry, and the page that the person came for."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlencode

from starlette.responses import Response

from app.oauth.login.continuation import is_continuation, path_of
from app.oauth.login.sessions import Visit, sign_in
from app.oauth.pages import see_other
from app.store.control.users import User

__all__ = ["SIGN_IN_FORM", "STALE", "sign_in_again", "welcome"]

SIGN_IN_FORM: Final = "sign-in"
"""What the forms of the sign-in page are authenticated as."""
STALE: Final = "This page had become stale, or your browser refused its cookie. Go back, reload it and try again."


async def welcome(seen: Visit, user: User, continuation: str, way: str, **detail: str) -> Response:
    """Sign ``user`` in and lead on to ``continuation``, if it is one of ours."""
    response = see_other(path_of(continuation))
    await sign_in(seen, user, response, way)
    await seen.services.sweep()
    await seen.services.note("sign_in", actor=user.id, way=way, **detail)
    return response


def sign_in_again(continuation: str) -> Response:
    """Send a person to the sign-in page, and back to ``continuation`` from there."""
    query = f"?{urlencode({'request': continuation})}" if is_continuation(continuation) else ""
    return see_other(f"/sign-in{query}")
