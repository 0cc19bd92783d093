"""Tools that change what is remembered: stronger, weaker, gone, decided."""

from __future__ import annotations

from typing import Final

from app.contract import Tool

__all__ = ["CHANGING"]

CHANGING: Final[tuple[Tool, ...]] = ()
