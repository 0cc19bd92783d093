"""Several parts of one answer at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

__all__ = ["together"]

T = TypeVar("T")


async def together(*parts: Awaitable[Any]) -> list[Any]:
    """What all of them answer, in their order; the first that fails ends the others and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(part)) for part in parts]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return [task.result() for task in tasks]


async def _awaited(part: Awaitable[T]) -> T:
    return await part
