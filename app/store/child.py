"""A child process that never outlives its use: found again after a crash, told from strangers, stopped in order."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

__all__ = ["ChildRecord", "launch", "stop_process"]

_POLL_SECONDS: Final = 0.05

# Runs as the child before it becomes the server: if the parent dies, the kernel sends it SIGTERM (prctl(2),
# PR_SET_PDEATHSIG). A launcher, since code run between fork and exec must not allocate.
_LAUNCHER: Final = (
    "import ctypes,os,signal,sys\n"
    "ctypes.CDLL(None).prctl(1,signal.SIGTERM)\n"
    "os.getppid()==int(sys.argv[1]) or sys.exit(1)\n"
    "os.execv(sys.argv[2],sys.argv[2:])\n"
)


@dataclass(frozen=True, slots=True)
class ChildRecord:
    """What is written down about a child: enough to find it again and to know that it is the same process."""

    pid: int
    started: int
    """Start time in clock ticks since boot, field 22 of /proc/<pid>/stat: tells a reused pid."""
    port: int

    @classmethod
    def read(cls, path: Path) -> ChildRecord | None:
        """The record at ``path``, if there is a readable one."""
        try:
            body = json.loads(path.read_text())
            return cls(int(body["pid"]), int(body["started"]), int(body["port"]))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    @classmethod
    def of(cls, pid: int, port: int) -> ChildRecord:
        """The record of a process that runs now."""
        return cls(pid, _started(pid) or 0, port)

    def write(self, path: Path) -> None:
        """Write the record to ``path`` in one step."""
        draft = path.with_suffix(".new")
        draft.write_text(json.dumps(asdict(self)))
        draft.replace(path)

    def alive(self, mark: str) -> bool:
        """Whether this very process still runs and has ``mark`` on its command line."""
        if self.started == 0 or _started(self.pid) != self.started:
            return False
        try:
            command = Path(f"/proc/{self.pid}/cmdline").read_bytes().split(b"\0")
        except OSError:
            return False
        return mark.encode() in command


async def launch(command: Sequence[str], *, log: Path, environment: dict[str, str]) -> asyncio.subprocess.Process:
    """Start ``command`` in a session of its own (Ctrl-C in the terminal does not reach it); output goes to ``log``.

    Raises:
        OSError: it could not be started.
    """
    with log.open("ab") as output:
        return await asyncio.create_subprocess_exec(
            sys.executable,
            "-ISc",
            _LAUNCHER,
            str(os.getpid()),
            *command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment,
            start_new_session=True,
        )


async def stop_process(record: ChildRecord, mark: str, *, seconds: float) -> bool:
    """End the recorded process: SIGTERM, after ``seconds`` SIGKILL. True if it went by itself."""
    polite = await _end(record, mark, signal.SIGTERM, seconds)
    if not polite:
        await _end(record, mark, signal.SIGKILL, seconds)
    return polite


async def _end(record: ChildRecord, mark: str, how: signal.Signals, seconds: float) -> bool:
    with contextlib.suppress(ProcessLookupError):
        if record.alive(mark):
            os.kill(record.pid, how)
    until = time.monotonic() + seconds
    while record.alive(mark):
        if time.monotonic() > until:
            return False
        await asyncio.sleep(_POLL_SECONDS)
    return True


def _started(pid: int) -> int | None:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    fields = stat.rpartition(")")[2].split()  # the name before it may hold blanks and parentheses
    return None if fields[0] == "Z" else int(fields[19])
