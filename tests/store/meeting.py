"""Two writes that meet: the second waits for a lock of the first, which then commits."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from app.context import Deadline
from app.store.database import Database
from app.store.session import ControlSession, Writing
from app.store.statement import Statement

__all__ = ["met", "patient", "waits"]


def patient(database: Database) -> ControlSession:
    """Time to spare: a busy machine must not end what a test holds open."""
    return database.control.until(Deadline.after(120), "test")


async def waits(database: Database, statement: Statement) -> None:
    """Until it waits for a lock."""
    async with asyncio.timeout(60), database.driver.session(database=database.name) as session:
        while True:
            result = await session.run(
                "SHOW TRANSACTIONS YIELD status, currentQuery WHERE status STARTS WITH 'Blocked' "
                "AND currentQuery CONTAINS $wanted RETURN count(*) AS waiting",
                wanted=statement.text,
            )
            row = await result.single()
            if row is not None and row["waiting"]:
                return
            await asyncio.sleep(0.02)


async def met(
    database: Database, first: Callable[[Writing], Awaitable[Any]], second: Awaitable[Any], waiting: Statement
) -> Any:
    """What the second one says, which came while the first had done its work and not committed it."""
    worked, go_on = asyncio.Event(), asyncio.Event()

    async def work(writing: Writing) -> None:
        await first(writing)
        worked.set()
        await go_on.wait()

    writing = asyncio.create_task(patient(database).write(work))
    await asyncio.wait({writing, asyncio.create_task(worked.wait())}, return_when=asyncio.FIRST_COMPLETED)
    later = asyncio.ensure_future(second)
    await waits(database, waiting)
    go_on.set()
    await writing
    return (await asyncio.gather(later, return_exceptions=True))[0]
