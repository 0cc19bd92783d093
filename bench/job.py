"""What a load process is asked, and what it answers; pickled between the two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from bench.script import Target

__all__ = ["Job", "Outcome", "Way"]

Way = Literal["http", "driver", "sdk"]


@dataclass(frozen=True)
class Job:
    """Calls to make: over HTTP their bytes, to the driver their scripts, for the SDK's client tool and arguments."""

    way: Way
    calls: Sequence[Any]
    clients: int
    url: str = ""
    tokens: Sequence[str] = ()
    target: Target | None = None
    model: bool = False
    """Whether the driver's scripts also embed their texts, as the gateway does."""
    every: float | None = None
    """Seconds between the starts of two calls of one client; None: the next when the last is answered."""
    seconds: float | None = None
    """After so many no call begins any more, but each client has made one."""


@dataclass
class Outcome:
    """Latencies in seconds of the calls that were served, and how long all of them took together."""

    seconds: list[float] = field(default_factory=list)
    elapsed: float = 0.0
    processor: float = 0.0
    """Processor time that the load process itself took, seconds."""
    refused: int = 0
    why: str = ""
    """How the last refusal begins."""
