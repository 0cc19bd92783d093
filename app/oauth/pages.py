"""People's pages of the authorization server: server-rendered, no script, no asset from elsewhere."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.errors import CallError, OAuthError

__all__ = ["STYLE_PATH", "message_page", "page", "page_endpoint", "see_other", "style"]

FOLDER: Final = Path(__file__).parent / "pages"

_STYLE: Final = (FOLDER / "style.css").read_bytes()
STYLE_PATH: Final = f"/oauth/style-{hashlib.sha256(_STYLE).hexdigest()[:12]}.css"

_log = structlog.get_logger("graphkeep.oauth")

_templates: Final = Environment(
    loader=FileSystemLoader(FOLDER), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
)
_templates.globals["style_path"] = STYLE_PATH


def page(template: str, *, status: int = 200, target: str = "", **values: Any) -> HTMLResponse:
    """A page. ``target`` is the origin that its form may lead on to: browsers apply ``form-action`` to the redirect
    that answers a form too."""
    policy = (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action 'self'{' ' + target if target else ''}"
    )
    return HTMLResponse(
        _templates.get_template(f"{template}.html").render(**values),
        status,
        headers={
            "Content-Security-Policy": policy,
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            # Not `no-referrer`: with that a browser sends `Origin: null` with our own forms.
            "Referrer-Policy": "same-origin",
            "Cache-Control": "no-store",
        },
    )


def message_page(title: str, message: str, *, status: int = 400, code: str = "") -> HTMLResponse:
    """A page that says one thing. ``code`` is the OAuth error, for whoever helps the person."""
    return page("message", status=status, title=title, message=message, code=code)


def see_other(location: str) -> Response:
    """Go on with a GET (303): a POST form answered by 307 would post to the client (RFC 9700 §4.12)."""
    return RedirectResponse(location, 303, headers={"Cache-Control": "no-store"})


def page_endpoint(handler: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """``handler`` with every expected failure shown as a page."""

    async def endpoint(request: Request) -> Response:
        try:
            return await handler(request)
        except OAuthError as error:
            _log.info("oauth_refused", path=request.url.path, error=error.error, reason=error.description)
            return message_page(
                "This request cannot be used", f"{error.description}.", status=error.status, code=error.error
            )
        except CallError as error:
            _log.warning("oauth_unavailable", path=request.url.path, reason=error.reason)
            response = message_page(
                "Not available just now",
                "graphkeep cannot reach its database. Reload this page in a moment.",
                status=503,
            )
            response.headers["Retry-After"] = "2"
            return response

    return endpoint


async def style(_request: Request) -> Response:
    """The style sheet; its address changes with its content."""
    return Response(_STYLE, media_type="text/css", headers={"Cache-Control": "public, max-age=31536000, immutable"})
