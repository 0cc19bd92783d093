"""Metadata documents that this gateway knows without fetching them.

Those of Claude's connectors are here because their host refuses some data centres (fault 7), and so that a gateway
without a way out serves them. An operator can pin others, or newer ones, in a file.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from app.errors import StartError

__all__ = ["CLAUDE", "CLAUDE_CODE", "pinned_documents"]

CLAUDE: Final[Mapping[str, Any]] = {
    "client_id": "https://claude.ai/oauth/mcp-oauth-client-metadata",
    "client_name": "Claude",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["https://claude.ai/api/mcp/auth_callback", "https://claude.com/api/mcp/auth_callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
"""The connector of claude.ai on the web, the desktop and phones."""

CLAUDE_CODE: Final[Mapping[str, Any]] = {
    "client_id": "https://claude.ai/oauth/claude-code-client-metadata",
    "client_name": "Claude Code",
    "client_uri": "https://claude.ai",
    "redirect_uris": ["http://localhost/callback", "http://127.0.0.1/callback"],
    "grant_types": ["authorization_code", "refresh_token"],
    "response_types": ["code"],
    "token_endpoint_auth_method": "none",
}
"""Claude Code listens on a loopback port of its choice, which is not compared (RFC 8252 §7.3)."""

BAD_CONFIGURATION: Final = 78  # EX_CONFIG


def pinned_documents(file: Path | None) -> list[Mapping[str, Any]]:
    """The known documents and those of ``file``, which count more.

    Raises:
        StartError: the file is no JSON list of documents, each with its ``client_id``.
    """
    if file is None:
        return [CLAUDE, CLAUDE_CODE]
    try:
        more = json.loads(file.expanduser().read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise _unusable(f"it cannot be read as JSON ({type(error).__name__})") from error
    if not isinstance(more, list) or not all(
        isinstance(each, dict) and isinstance(each.get("client_id"), str) for each in more
    ):
        raise _unusable("it must hold a list of client metadata documents, each with its client_id")
    return [CLAUDE, CLAUDE_CODE, *more]


def _unusable(reason: str) -> StartError:
    return StartError(f"the file of GRAPHKEEP_PINNED_CLIENTS is of no use: {reason}.", exit_code=BAD_CONFIGURATION)
