"""Every toolset's tools, in one order: what the documents and the local commands list."""

from __future__ import annotations

from app.contract import Tool

__all__ = ["every_tool"]


def every_tool() -> tuple[Tool, ...]:
    """All tools of this version."""
    from app.memory.tools import TOOLS

    return TOOLS
