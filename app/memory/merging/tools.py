"""Tools that bring entities together and take them apart, and that undo."""

from __future__ import annotations

from typing import Final

from app.contract import Tool

__all__ = ["MERGING"]

MERGING: Final[tuple[Tool, ...]] = ()
