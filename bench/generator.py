"""A load process, as the process that measures sees it."""

from __future__ import annotations

import asyncio
import pickle
import sys

from bench.job import Job, Outcome

__all__ = ["Generator"]


class Generator:
    """Runs ``python -m bench.load`` and hands it jobs, one at a time."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls) -> Generator:
        """Start one; it waits, at no cost, for its first job."""
        pipe = asyncio.subprocess.PIPE
        return cls(
            await asyncio.create_subprocess_exec(sys.executable, "-m", "bench.load", stdin=pipe, stdout=pipe),
        )

    async def run(self, job: Job) -> Outcome:
        """Have a job done.

        Raises:
            RuntimeError: the process ended; its traceback is on standard error.
        """
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the load process has no pipes")
        data = pickle.dumps(job)
        self._process.stdin.write(len(data).to_bytes(8, "big") + data)
        try:
            size = int.from_bytes(await self._process.stdout.readexactly(8), "big")
            outcome: Outcome = pickle.loads(await self._process.stdout.readexactly(size))
        except asyncio.IncompleteReadError:
            raise RuntimeError(f"a load process ended during a job of {job.way}") from None
        return outcome

    async def stop(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        await self._process.wait()
