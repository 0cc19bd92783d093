"""What commands print: words for people on stderr or stdout, one JSON line for scripts."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Mapping
from typing import Any, Final

from app.errors import StartError

__all__ = ["EX_CONFIG", "EX_UNAVAILABLE", "emit", "note", "require", "say"]

EX_UNAVAILABLE: Final = 69
EX_CONFIG: Final = 78
"""Exit codes of sysexits.h."""

_MARKS: Final = {"server": "mcp", "embedded": "jgo"}
"""A module of each extra that nothing else brings along."""


def say(text: str) -> None:
    """Print an answer."""
    print(text, flush=True)


def emit(value: Mapping[str, Any] | list[Any]) -> None:
    """Print an answer as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False, separators=(",", ":")), flush=True)


def note(text: str) -> None:
    """Tell a person what is going on, apart from the answer (stderr)."""
    print(text, file=sys.stderr, flush=True)


def require(*extras: str) -> None:
    """Make sure that the packages of ``extras`` are installed.

    Raises:
        StartError: one is missing; the message has the command that installs it.
    """
    missing = [extra for extra in extras if importlib.util.find_spec(_MARKS[extra]) is None]
    if missing:
        raise StartError(
            f"This command needs more than the light client that is installed here: pip install "
            f"'graphkeep[{','.join(missing)}]'",
            exit_code=EX_UNAVAILABLE,
        )
