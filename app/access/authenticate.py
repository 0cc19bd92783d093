"""The stage that learns who calls, before a byte of the body is read."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final
from urllib.parse import parse_qsl

import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from app.access.challenge import challenge, metadata_url
from app.access.verify import Verifier
from app.edge.answers import problem
from app.edge.context import context_of, with_context
from app.errors import CallError, OAuthError
from app.oauth.rfc9068 import ENDPOINT

__all__ = ["Authenticate"]

BAD_REQUEST: Final = 400
UNAUTHORIZED: Final = 401
SCHEME: Final = "bearer"


class Authenticate:
    """Puts the principal of the bearer token into the request's context, or answers 401.

    ``scopes`` are those that a first connection should ask for; every challenge names the same ones.
    Only the path ``at`` and those below are guarded; others pass.
    """

    def __init__(self, app: ASGIApp, verifier: Verifier, *, scopes: Iterable[str], at: str = ENDPOINT) -> None:
        self._app = app
        self._at = at
        self._verifier = verifier
        self._scopes = frozenset(scopes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Identify the caller and go on, or refuse."""
        if scope["type"] != "http" or not f"{scope['path']}/".startswith(f"{self._at}/"):
            await self._app(scope, receive, send)
            return
        context = context_of(scope)
        try:
            token = _token(scope)
            if token is None:
                await self._unidentified(scope)(scope, receive, send)
                return
            principal = self._verifier.verify(token, context.address)
        except OAuthError as error:
            await self._refused(scope, error)(scope, receive, send)
        except CallError as error:
            await _failed(scope, error)(scope, receive, send)
        else:
            again = partial(self._verifier.verify, token, context.address)
            # Every line that is logged on the way names the tenant, so that its lines can be found and erased.
            with structlog.contextvars.bound_contextvars(tenant=principal.tenant):
                await self._app(with_context(scope, context.identified(principal, again)), receive, send)

    def _unidentified(self, scope: Scope) -> ASGIApp:
        address = context_of(scope).address
        return problem(
            scope,
            UNAUTHORIZED,
            "unauthorized",
            "Sign in first: send `Authorization: Bearer <token>`. Clients find out how from the resource's metadata.",
            headers={"www-authenticate": challenge(address, self._scopes)},
            resource_metadata=metadata_url(address),
        )

    def _refused(self, scope: Scope, error: OAuthError) -> ASGIApp:
        address = context_of(scope).address
        header = challenge(address, self._scopes, error=error.error, description=error.description)
        return problem(
            scope,
            error.status,
            error.error,
            f"{error.description[:1].upper()}{error.description[1:]}.",
            headers={"www-authenticate": header},
            error=error.error,
            error_description=error.description,
            resource_metadata=metadata_url(address),
        )


def _failed(scope: Scope, error: CallError) -> ASGIApp:
    headers = {} if error.retry_after_ms is None else {"retry-after": str(-(-error.retry_after_ms // 1000))}
    return problem(scope, error.status, error.reason, error.message, retryable=error.retryable, headers=headers)


def _token(scope: Scope) -> str | None:
    """The bearer token of the one Authorization header; None without one (RFC 6750 §2.1).

    A token in the query string is never looked at: addresses end up in logs (OAuth 2.1 §5.1).

    Raises:
        OAuthError: ``invalid_request`` for several headers or for a token in the query string beside one,
            ``invalid_token`` for what is not a token.
    """
    values: list[bytes] = [value for name, value in scope["headers"] if name == b"authorization"]
    if len(values) > 1:
        raise OAuthError("invalid_request", "send exactly one Authorization header", status=BAD_REQUEST)
    if not values:
        return None
    scheme, _, token = values[0].decode("latin-1").strip().partition(" ")
    if scheme.lower() != SCHEME:
        return None
    if _in_query(scope):
        raise OAuthError("invalid_request", "send the token in the Authorization header only", status=BAD_REQUEST)
    token = token.strip()
    if not token or not token.isascii() or " " in token:
        raise OAuthError("invalid_token", "the token is malformed", status=UNAUTHORIZED)
    return token


def _in_query(scope: Scope) -> bool:
    query = scope.get("query_string", b"")
    return b"access_token" in query and any(
        name == "access_token" for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)
    )
