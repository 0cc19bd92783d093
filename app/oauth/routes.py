"""Every address of the authorization server, in one table."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from app.errors import OAuthError
from app.oauth import consent_page
from app.oauth.authorize import authorize
from app.oauth.clients.rfc7591 import register, registration_response
from app.oauth.errors import ANY_ORIGIN, answer, oauth_endpoint, preflight
from app.oauth.forms import read_body
from app.oauth.login import invitation_page, link_page, passkeys, provider_page, recovery_page
from app.oauth.login import password_page as login
from app.oauth.login.upstream import CALLBACK_PATH
from app.oauth.pages import SCRIPT_PATH, STYLE_PATH, page_endpoint, script, style
from app.oauth.rfc7009 import revoke
from app.oauth.rfc7662 import introspect
from app.oauth.rfc8414 import authorization_server_metadata
from app.oauth.rfc9728 import protected_resource_metadata
from app.oauth.service import AuthorizationServer
from app.oauth.token import token

__all__ = ["routes"]

FOR_FIVE_MINUTES: Final = {"Cache-Control": "public, max-age=300", **ANY_ORIGIN}

Handler = Callable[[AuthorizationServer, Request], Awaitable[Response]]


def routes(services: AuthorizationServer) -> list[Route]:
    """The routes of metadata, registration, authorization, tokens, revocation and the pages for people."""
    return [
        *_public(services, "/.well-known/oauth-authorization-server", authorization_server_metadata),
        *_public(services, "/.well-known/oauth-protected-resource", protected_resource_metadata),
        _machine("/.well-known/jwks.json", _keys, services, "GET"),
        _machine("/register", _register, services, "POST"),
        _machine("/token", token, services, "POST"),
        _machine("/revoke", revoke, services, "POST"),
        _machine("/introspect", introspect, services, "POST"),
        _page("/authorize", authorize, services, "GET"),
        _page("/consent", consent_page.ask, services, "GET"),
        _page("/consent", consent_page.decide, services, "POST"),
        _page("/sign-in", login.show_sign_in, services, "GET"),
        _page("/sign-in", login.try_sign_in, services, "POST"),
        _page("/sign-in/link", link_page.open_link, services, "GET"),
        _page("/sign-in/link", link_page.follow_link, services, "POST"),
        _page("/sign-in/provider", provider_page.to_provider, services, "GET"),
        _page(CALLBACK_PATH, provider_page.return_from_provider, services, "GET"),
        _page("/sign-in/access", provider_page.sign_in_by_access, services, "POST"),
        _page("/sign-in/passkey", passkeys.sign_in_with_passkey, services, "POST"),
        _page("/sign-in/recovery", recovery_page.show_recovery, services, "GET"),
        _page("/sign-in/recovery", recovery_page.try_code, services, "POST"),
        _page("/passkeys", passkeys.enrol, services, "POST"),
        _page("/recovery-codes", recovery_page.make_codes, services, "POST"),
        _page("/invitation", invitation_page.open_invitation, services, "GET"),
        _page("/invitation", invitation_page.accept, services, "POST"),
        _page("/signed-in", login.signed_in, services, "GET"),
        _page("/sign-out", login.leave, services, "POST"),
        Route(STYLE_PATH, style, methods=["GET"]),
        Route(SCRIPT_PATH, script, methods=["GET"]),
    ]


def _page(path: str, handler: Handler, services: AuthorizationServer, method: str) -> Route:
    async def endpoint(request: Request) -> Response:
        return await handler(services, request)

    return Route(path, page_endpoint(endpoint), methods=[method])


def _machine(path: str, handler: Handler, services: AuthorizationServer, method: str) -> Route:
    async def endpoint(request: Request) -> Response:
        if request.method == "OPTIONS":
            return await preflight(request)
        return await handler(services, request)

    return Route(path, oauth_endpoint(endpoint), methods=[method, "OPTIONS"])


def _public(
    services: AuthorizationServer, path: str, document: Callable[[str], Mapping[str, Any]]
) -> tuple[Route, Route]:
    """A well-known document at the root and with the path of the resource inserted (RFC 8414 §3, RFC 9728 §3)."""

    async def show(_services: AuthorizationServer, request: Request) -> Response:
        return JSONResponse(document(services.address(request)), headers=FOR_FIVE_MINUTES)

    return _machine(path, show, services, "GET"), _machine(f"{path}/mcp", show, services, "GET")


async def _keys(services: AuthorizationServer, _request: Request) -> Response:
    return JSONResponse((await services.ring()).document(), headers=FOR_FIVE_MINUTES)


async def _register(services: AuthorizationServer, request: Request) -> Response:
    if request.headers.get("content-type", "").split(";")[0].strip().lower() != "application/json":
        raise OAuthError("invalid_client_metadata", "the body must be application/json")
    try:
        metadata = json.loads(await read_body(request))
    except (ValueError, RecursionError) as error:
        raise OAuthError("invalid_client_metadata", "the body is no JSON") from error
    if not isinstance(metadata, dict):
        raise OAuthError("invalid_client_metadata", "the body must be a JSON object")
    secrets = await services.secrets()
    client = register(metadata, address=services.address(request), policy=services.policy, secrets=secrets)
    return answer(registration_response(client, secrets), status=201)
