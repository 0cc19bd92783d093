"""Threads of this room's own for reading whole files: what people send keeps no other work of the process waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, TypeVar

__all__ = ["in_thread"]

T = TypeVar("T")

_THREADS: Final = ThreadPoolExecutor(2, thread_name_prefix="ingest")


async def in_thread(work: Callable[..., T], *given: Any, **named: Any) -> T:
    """Do ``work``, which must end by a clock of its own, in one of the room's threads."""
    return await asyncio.get_running_loop().run_in_executor(_THREADS, partial(work, *given, **named))
