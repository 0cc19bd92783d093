"""Numbers with the word that they count."""

from __future__ import annotations

__all__ = ["counted"]


def counted(number: int, one: str, many: str | None = None) -> str:
    """``1 secret``, ``2 secrets``, ``0 secrets``; ``many`` where the word for several is not ``one`` with an s."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"
