"""Tools that look at the memory as a whole."""

from __future__ import annotations

from typing import Final

from app.contract import Tool

__all__ = ["ANALYSIS"]

ANALYSIS: Final[tuple[Tool, ...]] = ()
