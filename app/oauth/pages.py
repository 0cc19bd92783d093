"""People's pages of the authorization server: server-rendered, no asset from elsewhere; one script, for passkeys."""

from __future__ import annotations

import hashlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import structlog
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from app.errors import CallError, OAuthError

__all__ = [
    "SCRIPT_PATH",
    "STYLE_PATH",
    "document",
    "fragment",
    "message_page",
    "page",
    "page_endpoint",
    "script",
    "see_other",
    "style",
    "templates",
]

FOLDER: Final = Path(__file__).parent / "pages"

_STYLE: Final = (FOLDER / "style.css").read_bytes()
STYLE_PATH: Final = f"/oauth/style-{hashlib.sha256(_STYLE).hexdigest()[:12]}.css"
_SCRIPT: Final = (FOLDER / "passkeys.js").read_bytes()
SCRIPT_PATH: Final = f"/oauth/passkeys-{hashlib.sha256(_SCRIPT).hexdigest()[:12]}.js"
SCRIPTS: Final = "; script-src 'self'"
FOREVER: Final = {"Cache-Control": "public, max-age=31536000, immutable"}

_log = structlog.get_logger("graphkeep.oauth")


def templates(*folders: Path) -> Environment:
    """Templates of ``folders``, the first that has one; they share the layout and the style sheet of this room."""
    made = Environment(
        loader=FileSystemLoader([*folders, FOLDER]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["style_path"] = STYLE_PATH
    made.globals["script_path"] = SCRIPT_PATH
    return made


_templates: Final = templates()


def page(template: str, *, status: int = 200, target: str = "", scripted: bool = False, **values: Any) -> HTMLResponse:
    """A page of this room; see :func:`document`."""
    text = _templates.get_template(f"{template}.html").render(**values)
    return document(text, status=status, target=target, scripted=scripted)


def fragment(template: str, **values: Any) -> Markup:
    """A part of a page of this room, for pages of another."""
    return Markup(_templates.get_template(f"{template}.html").render(**values))  # noqa: S704 (escaped by the template)


def document(text: str, *, status: int = 200, target: str = "", scripted: bool = False) -> HTMLResponse:
    """A page from its text. ``target`` is the origin that its form may lead on to: browsers apply ``form-action`` to
    the redirect that answers a form too. ``scripted`` lets our own script run, never an inline one."""
    policy = (
        "default-src 'none'; style-src 'self'; img-src 'self' data:; base-uri 'none'; frame-ancestors 'none'; "
        f"form-action 'self'{' ' + target if target else ''}{SCRIPTS if scripted else ''}"
    )
    return HTMLResponse(
        text,
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
    return Response(_STYLE, media_type="text/css", headers=FOREVER)


async def script(_request: Request) -> Response:
    """The script of passkeys; its address changes with its content."""
    return Response(_SCRIPT, media_type="text/javascript", headers=FOREVER)
