"""Several parts of one answer at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar, overload

__all__ = ["together"]

S = TypeVar("S")
T = TypeVar("T")


@overload
async def together(one: Awaitable[S], two: Awaitable[T], /) -> tuple[S, T]: ...


@overload
async def together(*parts: Awaitable[Any]) -> tuple[Any, ...]: ...


async def together(*parts: Awaitable[Any]) -> tuple[Any, ...]:
    """What all of them answer, in their order; the first that fails ends the others and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_awaited(part)) for part in parts]
    except BaseExceptionGroup as failed:
        raise failed.exceptions[0] from failed
    return tuple(task.result() for task in tasks)


async def _awaited(part: Awaitable[T]) -> T:
    return await part
