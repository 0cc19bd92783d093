"""A child process that leaves a note of itself, so that the next start finds one whose parent was killed."""

from __future__ import annotations

import json
import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

__all__ = ["forget", "remember", "stop_stale"]

_TERM_SECONDS: Final = 5.0


def remember(note: Path, pid: int) -> None:
    """Write down process ``pid`` with the time it was started: a number alone may be another process tomorrow."""
    note.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    note.write_text(json.dumps({"pid": pid, "started": _started(pid)}), encoding="ascii")


def forget(note: Path) -> None:
    """The child has ended."""
    note.unlink(missing_ok=True)


def stop_stale(note: Path) -> bool:
    """Stop the process of ``note`` if it still runs; True if there was one."""
    try:
        found = json.loads(note.read_text(encoding="ascii"))
        pid, started = int(found["pid"]), found["started"]
    except (OSError, ValueError, KeyError, TypeError):
        return False
    running = started is not None and _started(pid) == started
    if running:
        _end(pid, started)
    forget(note)
    return running


def _end(pid: int, started: str) -> None:
    for number, seconds in ((signal.SIGTERM, _TERM_SECONDS), (signal.SIGKILL, 2.0)):
        with suppress(ProcessLookupError):
            os.kill(pid, number)
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if _started(pid) != started:
                return
            time.sleep(0.02)


def _started(pid: int) -> str | None:
    """Start time in clock ticks since boot, field 22 of proc(5) stat; None if it does not run (a zombie does not)."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    # The command's name in parentheses may hold spaces.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] == "Z" else fields[19]
