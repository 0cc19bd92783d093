"""The console's templates and its style sheet, on top of those of the sign-in pages."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Final

from starlette.requests import Request
from starlette.responses import Response

from app.console.words import action_in_words, browser_in_words, moment
from app.oauth.choosing import layers_in_words, scopes_in_words
from app.oauth.pages import templates

__all__ = ["STYLE_PATH", "TEMPLATES", "style"]

FOLDER: Final = Path(__file__).parent / "pages"

_STYLE: Final = (FOLDER / "console.css").read_bytes()
STYLE_PATH: Final = f"/console/style-{hashlib.sha256(_STYLE).hexdigest()[:12]}.css"

TEMPLATES: Final = templates(FOLDER)
TEMPLATES.globals["console_style_path"] = STYLE_PATH
TEMPLATES.filters["moment"] = moment
TEMPLATES.filters["scopes"] = scopes_in_words
TEMPLATES.filters["layers"] = layers_in_words
TEMPLATES.filters["action"] = action_in_words
TEMPLATES.filters["browser"] = browser_in_words


async def style(_request: Request) -> Response:
    """The style sheet; its address changes with its content."""
    return Response(_STYLE, media_type="text/css", headers={"Cache-Control": "public, max-age=31536000, immutable"})
