"""Which account somebody is whom another party vouches for.

The identity is (issuer, subject): an address that changes there keeps its account here. An address alone leads to an
account in one case only: when it is verified, on the allow-list, and the account waits to be used for the first time,
made by an operator while nobody ever had a way into it. Whoever has an account already ties it to the provider from
within, so neither an unverified address there nor an account that somebody made here in another's name takes anything
over.
"""

from __future__ import annotations

import time

from app.errors import Conflict, Forbidden
from app.oauth.login.recovery import RecoveryCodes
from app.oauth.login.vouching import Vouched
from app.oauth.service import AuthorizationServer
from app.store.control.users import User

__all__ = ["admit", "connect"]


async def admit(services: AuthorizationServer, vouched: Vouched, way: str) -> User:
    """The account of this person, made if there is none.

    Raises:
        Forbidden: they may not come in this way; the message is for them.
    """
    await _check_allowed(services, vouched, way)
    known = await services.identities.find(vouched.issuer, vouched.subject)
    if known is None:
        user = await _new_or_waiting(services, vouched, way)
        known = await services.identities.tie(user.id, vouched.issuer, vouched.subject, time.time())
        await services.note("identity.connect", actor=known, way=way)
    found = await services.users.by_id(known)
    if found is None:
        raise await _refused(services, way, "gone", "Your account here does not exist any more.")
    return found


async def connect(services: AuthorizationServer, user: User, vouched: Vouched, way: str) -> None:
    """Tie the identity to the account of the person who is signed in.

    Raises:
        Forbidden: they may not come in this way, or it is tied to another account; the message is for them.
    """
    await _check_allowed(services, vouched, way)
    tied = await services.identities.tie(user.id, vouched.issuer, vouched.subject, time.time())
    if tied != user.id:
        raise await _refused(services, way, "taken", "That identity belongs to another account here.")
    await services.note("identity.connect", actor=user.id, way=way)


async def _check_allowed(services: AuthorizationServer, vouched: Vouched, way: str) -> None:
    if not vouched.email or not vouched.verified:
        raise await _refused(
            services, way, "unverified", "The provider does not say that it has verified your e-mail address."
        )
    if not services.providers.allowed.admits(vouched.email):
        raise await _refused(
            services, way, "not_allowed", "Your e-mail address is not among those that may sign in here this way."
        )


async def _new_or_waiting(services: AuthorizationServer, vouched: Vouched, way: str) -> User:
    try:
        user = await services.users.create(vouched.email)
    except Conflict:
        found = await services.users.by_email(vouched.email)
        if found is None or await _has_a_way(services, found):
            raise await _refused(
                services,
                way,
                "address_in_use",
                "There is an account with your e-mail address that signs in in another way. Sign in that way, then "
                "connect the provider on the page that follows.",
            ) from None
        return found
    await services.note("user.add", actor=user.id, target=user.id, way=way)
    return user


async def _has_a_way(services: AuthorizationServer, user: User) -> bool:
    return (
        await services.passwords.known(user.id)
        or bool(await services.passkeys.of_user(user.id))
        or bool(await services.identities.of_user(user.id))
        or await RecoveryCodes(services).left(user.id) > 0
    )


async def _refused(services: AuthorizationServer, way: str, reason: str, message: str) -> Forbidden:
    await services.note("sign_in.refuse", actor="", way=way, reason=reason)
    return Forbidden(message)
