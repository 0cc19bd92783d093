"""Making text of a queued file, in a process that ends within its limits whatever the file does to it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.ingest.convert import FAILED, REFUSED
from app.settings import IngestSettings

__all__ = ["ATTEMPTS", "ConversionFailed", "convert"]

ATTEMPTS: Final = 3
SLOW_ATTEMPTS: Final = 2
"""What took all the time that there is takes the converter from everybody else, each time."""
ANSWER: Final = 64 * 1024
_USED_UP: Final = {-signal.SIGXCPU, -signal.SIGKILL}
"""How a process ends that was given no more time."""
_KEPT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "SYSTEMROOT")


@dataclass
class ConversionFailed(Exception):
    """No text came of it. ``attempts``: how many are worth making in all."""

    reason: str
    attempts: int = 1


async def convert(source: Path, name: str, folder: Path, settings: IngestSettings) -> Path:
    """The file with the text of ``source``, in ``folder``; the caller removes the folder.

    Raises:
        ConversionFailed: why not, in words for people.
    """
    result = folder / "text"
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", "-m", "app.ingest.convert", str(source), str(result), name),
        *(str(settings.convert_megabytes), str(max(1, int(settings.convert_seconds)))),
        cwd=folder,
        env={
            **{key: os.environ[key] for key in _KEPT if key in os.environ},
            "HOME": str(folder),
            "TMPDIR": str(folder),
            "MALLOC_ARENA_MAX": "2",  # each reserves address space, and there are as many as processors otherwise
        },
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
        limit=ANSWER,
    )
    try:
        async with asyncio.timeout(settings.convert_seconds):
            said = await process.stdout.read(ANSWER) if process.stdout is not None else b""
            await process.wait()
    except TimeoutError:
        reason = f"the conversion took longer than {settings.convert_seconds:g} s"
        raise ConversionFailed(reason, SLOW_ATTEMPTS) from None
    finally:
        await _ended(process)
    _judge(process.returncode or 0, said)
    return result


async def _ended(process: asyncio.subprocess.Process) -> None:
    """End the process and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    await process.wait()


def _judge(code: int, said: bytes) -> None:
    if code == 0:
        return
    try:
        reason = str(json.loads(said)["reason"])
    except (ValueError, KeyError, TypeError):
        reason = "the converter ended without an answer: the file may need more memory or time than it may take"
    raise ConversionFailed(reason, 1 if code in {REFUSED, FAILED} else SLOW_ATTEMPTS if code in _USED_UP else ATTEMPTS)
