"""Passkeys (WebAuthn Level 3) by the library ``webauthn``: enrolling one, and signing in with one that is discoverable.

The relying party id is the host of the public address, the expected origin that address itself. Challenges are sealed
texts for one browser (:mod:`~app.oauth.login.ceremony`) that count once on all replicas. The person must be verified
by their device, so a passkey alone is enough to sign in.
"""

from __future__ import annotations

import struct
import time
from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

import structlog
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import Response
from webauthn import (
    generate_authentication_options,
    generate_registration_options,
    options_to_json,
    verify_authentication_response,
    verify_registration_response,
)
from webauthn.helpers import (
    base64url_to_bytes,
    bytes_to_base64url,
    parse_authentication_credential_json,
    parse_client_data_json,
    parse_registration_credential_json,
)
from webauthn.helpers.exceptions import WebAuthnException
from webauthn.helpers.structs import (
    AuthenticatorSelectionCriteria,
    PublicKeyCredentialDescriptor,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from app.errors import Conflict, InvalidInput
from app.oauth.forms import read_form
from app.oauth.login import ceremony
from app.oauth.login.continuation import path_of
from app.oauth.login.sessions import Visit, visit
from app.oauth.login.welcome import SIGN_IN_FORM, STALE, sign_in_again, welcome
from app.oauth.pages import fragment, message_page, see_other
from app.oauth.service import AuthorizationServer
from app.store.control.passkeys import LARGEST_NUMBER, Passkey, passkey_id
from app.store.control.users import User

__all__ = [
    "enrol",
    "enrol_form",
    "enrolled",
    "enrolment_options",
    "keep",
    "possible",
    "sign_in_options",
    "sign_in_with_passkey",
]

CHALLENGE_SECONDS: Final = 10 * 60
LONGEST_NAME: Final = 64
ENROL: Final = "enrol passkey"
SIGN_IN: Final = "sign in with passkey"
ENROL_PATH: Final = "/passkeys"
UNFIT: Final = "This passkey could not be used here. Try again, or choose another way."
TOO_MANY: Final = f"You have {LARGEST_NUMBER} passkeys, as many as one may have. Remove one first."
UNKNOWN: Final = "This gateway does not know that passkey. Choose another one, or another way."

# What the library and the decoders below it raise for a malformed credential.
_MALFORMED: Final = (
    WebAuthnException,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RecursionError,
    struct.error,
)

_log = structlog.get_logger("graphkeep.oauth")


def possible(address: str) -> bool:
    """Whether browsers allow passkeys at this address: no IP address, and HTTPS or this machine."""
    host = _rp_id(address)
    try:
        ip_address(host)
    except ValueError:
        return address.startswith("https://") or host == "localhost"
    return False


async def sign_in_options(seen: Visit) -> str:
    """What a browser needs to ask for a passkey, as JSON; empty where passkeys are impossible."""
    if not possible(seen.address):
        return ""
    challenge = await ceremony.begin(seen, SIGN_IN, {}, seconds=CHALLENGE_SECONDS)
    return options_to_json(
        generate_authentication_options(
            rp_id=_rp_id(seen.address),
            challenge=base64url_to_bytes(challenge),
            timeout=CHALLENGE_SECONDS * 1000,
            user_verification=UserVerificationRequirement.REQUIRED,
        )
    )


async def enrolment_options(seen: Visit, user: str, name: str, *, place: str = "") -> str:
    """What a browser needs to make a passkey for the subject ``user``, as JSON; empty where passkeys are impossible.

    ``name`` is what the person's device shows, ``place`` what the passkey is made for: the answer fits there alone.
    """
    if not possible(seen.address):
        return ""
    challenge = await ceremony.begin(seen, ENROL, {"user": user, "place": place}, seconds=CHALLENGE_SECONDS)
    return options_to_json(
        generate_registration_options(
            rp_id=_rp_id(seen.address),
            rp_name="graphkeep",
            user_id=user.encode(),
            user_name=name,
            user_display_name=name,
            challenge=base64url_to_bytes(challenge),
            timeout=CHALLENGE_SECONDS * 1000,
            exclude_credentials=[
                PublicKeyCredentialDescriptor(id=base64url_to_bytes(each.credential))
                for each in await seen.services.passkeys.of_user(user)
                if each.rp_id == _rp_id(seen.address)
            ],
            authenticator_selection=AuthenticatorSelectionCriteria(
                resident_key=ResidentKeyRequirement.REQUIRED, user_verification=UserVerificationRequirement.REQUIRED
            ),
        )
    )


async def enrolled(seen: Visit, credential: str, name: str, *, place: str = "") -> Passkey:
    """The passkey that a browser made for :func:`enrolment_options`; not stored yet, its challenge used up.

    Raises:
        InvalidInput: it does not fit; the message is for the person.
    """
    try:
        parsed = parse_registration_credential_json(credential)
        challenge = bytes_to_base64url(parse_client_data_json(parsed.response.client_data_json).challenge)
        asked = await ceremony.resume(seen, ENROL, challenge)
        if asked is None or asked["place"] != place:
            raise InvalidInput(STALE)
        verified = verify_registration_response(
            credential=parsed,
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=_rp_id(seen.address),
            expected_origin=seen.address,
            require_user_verification=True,
        )
    except _MALFORMED as error:
        _log.info("passkey_refused", reason=type(error).__name__)
        raise InvalidInput(UNFIT) from error
    if len(await seen.services.passkeys.of_user(asked["user"])) >= LARGEST_NUMBER:
        raise InvalidInput(TOO_MANY)
    if not await ceremony.finish(seen, challenge, asked):
        raise InvalidInput(STALE)
    return Passkey(
        id=passkey_id(verified.credential_id),
        user=asked["user"],
        name=name.strip()[:LONGEST_NAME] or "Passkey",
        rp_id=_rp_id(seen.address),
        credential=bytes_to_base64url(verified.credential_id),
        public_key=bytes_to_base64url(verified.credential_public_key),
        sign_count=verified.sign_count,
        transports=[each.value for each in parsed.response.transports or []],
        backed_up=verified.credential_backed_up,
        created_at=time.time(),
    )


async def enrol_form(seen: Visit, *, back: str) -> Markup:
    """The form with which a person who signed in a moment ago adds a passkey; ``back`` is where they land after it.

    For any page that lets our script run. Empty when no one is signed in or passkeys are impossible here.
    """
    if seen.user is None:
        return Markup()
    options = await enrolment_options(seen, seen.user.id, seen.user.email)
    if not options:
        return Markup()
    return fragment(
        "passkey_form",
        action=ENROL_PATH,
        kind="create",
        options=options,
        csrf=await seen.csrf(ENROL),
        fields={"back": back},
        label="Add a passkey",
        asks_email=False,
        asks_name=True,
    )


async def enrol(services: AuthorizationServer, request: Request) -> Response:
    """Keep a passkey that the signed-in person just made."""
    form = await read_form(request)
    seen = await visit(services, request)
    if not await seen.ours(request, form.one("csrf"), ENROL):
        return message_page("Please try again", STALE, status=403)
    back = form.one("back") or ""
    if seen.user is None or not seen.recent:
        return sign_in_again(back)
    try:
        made = await enrolled(seen, form.one("credential") or "", form.one("name") or "")
        if made.user != seen.user.id:
            raise InvalidInput(STALE)
        await keep(services, made)
    except InvalidInput as problem:
        return message_page("No passkey was added", problem.message)
    return see_other(path_of(back))


async def keep(services: AuthorizationServer, passkey: Passkey) -> None:
    """Store a passkey of a user who exists.

    Raises:
        InvalidInput: they have as many as one may, or this one is known already; the message is for the person.
    """
    try:
        added = await services.passkeys.add(passkey)
    except Conflict as error:
        raise InvalidInput("This passkey is in use already.") from error
    if not added:
        raise InvalidInput(TOO_MANY)
    await services.note("passkey.add", actor=passkey.user, target=passkey.id)


async def sign_in_with_passkey(services: AuthorizationServer, request: Request) -> Response:
    """Verify what the browser brought and go on."""
    form = await read_form(request)
    seen = await visit(services, request)
    if not await seen.ours(request, form.one("csrf"), SIGN_IN_FORM):
        return message_page("Please try again", STALE, status=403)
    try:
        user = await _proved(seen, form.one("credential") or "")
    except InvalidInput as problem:
        return message_page("You are not signed in", problem.message, status=401)
    return await welcome(seen, user, form.one("request") or "", "passkey")


async def _proved(seen: Visit, credential: str) -> User:
    services = seen.services
    try:
        parsed = parse_authentication_credential_json(credential)
        challenge = bytes_to_base64url(parse_client_data_json(parsed.response.client_data_json).challenge)
        asked = await ceremony.resume(seen, SIGN_IN, challenge)
        if asked is None:
            raise InvalidInput(STALE)
        passkey = await services.passkeys.find(passkey_id(parsed.raw_id))
        if passkey is None or passkey.rp_id != _rp_id(seen.address):
            raise InvalidInput(UNKNOWN)
        if parsed.response.user_handle not in (None, passkey.user.encode()):
            raise InvalidInput(UNFIT)
        verified = verify_authentication_response(
            credential=parsed,
            expected_challenge=base64url_to_bytes(challenge),
            expected_rp_id=passkey.rp_id,
            expected_origin=seen.address,
            credential_public_key=base64url_to_bytes(passkey.public_key),
            credential_current_sign_count=0,  # compared below, by the store: two replicas may be asked at once
            require_user_verification=True,
        )
    except _MALFORMED as error:
        _log.info("passkey_refused", reason=type(error).__name__)
        raise InvalidInput(UNFIT) from error
    if not await ceremony.finish(seen, challenge, asked):
        raise InvalidInput(STALE)
    count, backed_up = verified.new_sign_count, verified.credential_backed_up
    if not await services.passkeys.used(passkey.id, sign_count=count, backed_up=backed_up, now=time.time()):
        await services.note("passkey.copied", actor=passkey.user, target=passkey.id)
        raise InvalidInput(
            "This passkey was used elsewhere since: there may be a copy of it. Sign in in another way and remove it."
        )
    user = await services.users.by_id(passkey.user)
    if user is None:
        raise InvalidInput(UNKNOWN)
    return user


def _rp_id(address: str) -> str:
    return urlsplit(address).hostname or ""
