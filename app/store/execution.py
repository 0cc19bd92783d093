"""How statements reach the database: deadlines, retries and a truthful outcome (design §8).

Reads are auto-commit transactions of one round trip. A write is one explicit transaction; until its commit point it can
be cancelled and repeated, past it the commit goes on by itself whatever becomes of the caller.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString, Protocol, TypeVar

from neo4j import READ_ACCESS, WRITE_ACCESS, AsyncDriver, AsyncResult, AsyncSession, AsyncTransaction, Query

from app.context import Deadline
from app.errors import CallError, InternalError, Outcome
from app.store.failures import DATABASE_FAILURES, Again, again, backoff, called_off, commit_outcome, translate
from app.store.statement import Statement
from app.store.touching import Lately, Touches
from app.store.values import plain_rows

__all__ = ["Execution", "Run", "Trace"]

T = TypeVar("T")

_EVERY_ROW: Final = 2**31
_CONNECTION_PATIENCE: Final = 3.0
"""Seconds for which a lost connection is tried again."""

# Shares of a write's time (design §8: 15 s = 10 before the commit, 3 for its acknowledgement, 1 rollback, 1 advice).
_WORK_SHARE: Final = 10 / 15
_COMMIT_SHARE: Final = 13 / 15
_ROLLBACK_SECONDS: Final = 1.0
_FINISHING_SECONDS: Final = 5.0
"""How long the server may go on with a commit when its transaction's time is over: it looks for such every 2 s."""


@dataclass(frozen=True, slots=True)
class Trace:
    """What marks a transaction on the server and in the log; never memory text."""

    request_id: str
    tenant: str = ""
    writes: bool = False
    """Whether its call is one that changes something: who hears that the time is over then gets other advice."""

    def metadata(self) -> dict[str, str]:
        """The transaction's metadata."""
        return {"tenant": self.tenant, "request": self.request_id}


class Run(Protocol):
    """Runs one statement inside a write's transaction."""

    async def __call__(self, statement: Statement, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The statement's rows."""


class Execution:
    """Runs statements on one driver, for one event loop."""

    def __init__(self, driver: AsyncDriver, database: str) -> None:
        common: dict[str, Any] = {"database": database, "bookmark_manager": None}
        self._driver = driver
        self._reading = {**common, "default_access_mode": READ_ACCESS}
        self._writing = {**common, "default_access_mode": WRITE_ACCESS}
        self._commits: set[asyncio.Task[None]] = set()
        self.lately = Lately()

    async def settle(self) -> None:
        """Wait for the commits under way; each is bounded by its own deadline."""
        while self._commits:
            await asyncio.wait(self._commits)

    async def close(self) -> None:
        """Wait for the commits under way, and no longer for those whose outcome is unknown."""
        await self.settle()
        self.lately.close()

    async def read(
        self, statement: Statement, parameters: Mapping[str, Any], deadline: Deadline, trace: Trace
    ) -> list[dict[str, Any]]:
        """Rows of a reading statement, tried again within the deadline.

        Raises:
            DeadlineExceeded: no time is left.
            DatabaseUnavailable: the database does not answer.
            Overloaded: the database has no room for it.
        """
        return await self._single(statement.text, statement.name, parameters, deadline, trace, self._reading)

    async def command(self, text: LiteralString, deadline: Deadline) -> None:
        """Run a schema command; it must be one that may be repeated (``IF NOT EXISTS``).

        Raises:
            CallError: as ``read`` does.
        """
        await self._single("CYPHER 25 " + text, "schema.command", {}, deadline, Trace("schema"), self._writing)

    async def _single(
        self,
        text: LiteralString,
        name: str,
        parameters: Mapping[str, Any],
        deadline: Deadline,
        trace: Trace,
        mode: Mapping[str, Any],
    ) -> list[dict[str, Any]]:
        patience = _Patience()
        try:
            async with asyncio.timeout(deadline.remaining()) as clock:
                while True:
                    try:
                        query = Query(text, metadata=trace.metadata(), timeout=max(deadline.remaining(), 0.001))
                        async with self._driver.session(**mode) as session:
                            result = await session.run(query, _unprinted(parameters))
                            return await _rows(result)
                    except DATABASE_FAILURES as error:
                        if not await patience.waits(error):
                            raise translate(
                                error,
                                outcome="not_applied",
                                statement=name,
                                request_id=trace.request_id,
                                writes=trace.writes,
                            ) from error
        except TimeoutError:
            if clock.expired():
                raise called_off("not_applied", writes=trace.writes) from None
            raise

    async def write(self, work: Callable[[Run], Awaitable[T]], deadline: Deadline, trace: Trace) -> T:
        """Do ``work`` in one transaction and commit it; ``work`` is repeated when the database asks for it.

        Raises:
            CallError: with the outcome that is known; what ``work`` raised itself was rolled back.
        """
        remaining = deadline.remaining()
        work_until = deadline.sooner(remaining * _WORK_SHARE)
        commit_until = deadline.sooner(remaining * _COMMIT_SHARE)
        patience = _Patience()
        while True:
            attempt = _Attempt(self._driver.session(**self._writing), trace, work_until, commit_until)
            try:
                answer = await attempt.work(work)
                await self._commit(attempt)
            except _Retry as retry:
                error = retry.error
                if work_until.passed:
                    raise called_off("not_applied", writes=True) from error
                if not await patience.waits(error):
                    raise translate(
                        error,
                        outcome="not_applied",
                        statement=attempt.statement,
                        request_id=trace.request_id,
                        writes=True,
                    ) from error
            else:
                return answer

    async def _commit(self, attempt: _Attempt) -> None:
        task = asyncio.ensure_future(attempt.commit())
        self._commits.add(task)
        task.add_done_callback(partial(self._commit_done, attempt))
        await asyncio.shield(task)

    def _commit_done(self, attempt: _Attempt, task: asyncio.Task[None]) -> None:
        self._commits.discard(task)
        # A caller that left never asks for the exception; asked here, so the loop does not complain.
        failure = None if task.cancelled() else task.exception()
        if not task.cancelled() and (failure is None or isinstance(failure, _Retry)):
            self.lately.ended(attempt.tenant, attempt.touches)
        else:
            seconds = attempt.commit_until.remaining() + _FINISHING_SECONDS
            self.lately.doubted(attempt.tenant, attempt.touches, seconds)


async def _rows(result: AsyncResult) -> list[dict[str, Any]]:
    return plain_rows(await result.fetch(_EVERY_ROW))


class _Unprinted(list[Any]):
    """A list that the driver does not write out.

    It composes its debug lines, parameters and all, even when nobody reads them: 7 ms for the vectors of a batch.
    """

    def __repr__(self) -> str:
        return "[...]"


def _unprinted(parameters: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _Unprinted(value) if type(value) is list else value for name, value in parameters.items()}


class _Retry(Exception):
    """An attempt failed and nothing of it was applied."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error


class _Patience:
    """Counts attempts and decides whether to make another."""

    def __init__(self) -> None:
        self._attempts = 0
        self._until = time.monotonic() + _CONNECTION_PATIENCE

    async def waits(self, error: Exception) -> bool:
        """Wait before the next attempt, or say that there should be none."""
        verdict = again(error)
        if verdict is Again.NEVER or (verdict is Again.CONNECTION and time.monotonic() > self._until):
            return False
        self._attempts += 1
        await asyncio.sleep(backoff(self._attempts))
        return True


class _Attempt:
    """One try of a write: a session, its transaction, and what is known of its end."""

    def __init__(self, session: AsyncSession, trace: Trace, work_until: Deadline, commit_until: Deadline) -> None:
        self._session = session
        self._trace = trace
        self._work_until = work_until
        self.commit_until = commit_until
        self._transaction: AsyncTransaction | None = None
        self.statement = "begin"
        self.touches = Touches()

    @property
    def tenant(self) -> str:
        """Whose records it is for; empty for control records."""
        return self._trace.tenant

    async def work(self, work: Callable[[Run], Awaitable[T]]) -> T:
        try:
            async with asyncio.timeout(self._work_until.remaining()) as clock:
                # The server gives up only after the client would, so that it never cuts a commit short.
                self._transaction = await self._session.begin_transaction(
                    metadata=self._trace.metadata(), timeout=max(self.commit_until.remaining(), 0.001)
                )
                return await work(self._run)
        except asyncio.CancelledError:
            await self._abandon()
            raise
        except TimeoutError as error:
            await self._abandon()
            if clock.expired():
                raise called_off("not_applied", writes=True) from None
            raise _Retry(error) from error
        except DATABASE_FAILURES as error:
            await self._roll_back()
            raise _Retry(error) from error
        except BaseException:
            await self._roll_back()
            raise

    async def _run(self, statement: Statement, parameters: Mapping[str, Any]) -> list[dict[str, Any]]:
        if self._transaction is None:
            raise InternalError("a statement ran outside its transaction")
        self.statement = statement.name
        self.touches.note(statement, parameters)
        return await _rows(await self._transaction.run(statement.text, _unprinted(parameters)))

    async def commit(self) -> None:
        transaction = self._transaction
        if transaction is None:
            raise InternalError("a transaction that never began cannot be committed")
        self.statement = "commit"
        try:
            async with asyncio.timeout(self.commit_until.remaining()):
                await transaction.commit()
        except asyncio.CancelledError:
            await self._abandon()
            raise
        except TimeoutError:
            await self._abandon()
            raise called_off("unknown") from None
        except DATABASE_FAILURES as error:
            await self._close()
            raise self._commit_failure(error, commit_outcome(error)) from error
        await self._close()

    def _commit_failure(self, error: Exception, outcome: Outcome) -> CallError | _Retry:
        if outcome == "not_applied":
            return _Retry(error)
        request_id = self._trace.request_id
        return translate(error, outcome=outcome, statement=self.statement, request_id=request_id, writes=True)

    async def _roll_back(self) -> None:
        if self._transaction is not None:
            try:
                async with asyncio.timeout(_ROLLBACK_SECONDS):
                    await self._transaction.close()
            except (TimeoutError, *DATABASE_FAILURES):
                await self._abandon()
                return
        await self._close()

    async def _close(self) -> None:
        try:
            async with asyncio.timeout(_ROLLBACK_SECONDS):
                await self._session.close()
        except (TimeoutError, *DATABASE_FAILURES):
            await self._abandon()

    async def _abandon(self) -> None:
        """Cut the connection, which ends the transaction on the server too; without it, closing waits for nothing."""
        self._session.cancel()
        await self._session.close()
