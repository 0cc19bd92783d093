"""Requests that wait while the model is busy are answered together (micro-batching), queries before passages."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

from app.context import Deadline
from app.embedding.model import ModelMissing
from app.errors import DeadlineExceeded, EmbeddingUnavailable, Overloaded

__all__ = ["Batcher"]

_BATCH_TEXTS: Final = 32
_BATCH_CHARACTERS: Final = 32_000

Encode = Callable[[Sequence[str]], Awaitable[list[list[float]]]]


@dataclass(slots=True)
class _Waiting:
    text: str
    answer: asyncio.Future[list[float]]


class Batcher:
    """Texts in, vectors out; at most ``limit`` of each urgency wait, so that what one
    tenant stores never keeps another's questions out. A caller that gives up takes its texts with it."""

    def __init__(self, encode: Encode, limit: int) -> None:
        self._encode = encode
        self._limit = limit
        self._urgent: deque[_Waiting] = deque()
        self._patient: deque[_Waiting] = deque()
        self._wake = asyncio.Event()
        self._task = asyncio.create_task(self._run(), name="embedding batches")

    async def vectors(self, texts: Sequence[str], deadline: Deadline, *, urgent: bool) -> list[list[float]]:
        """Vectors of ``texts`` in order.

        Raises:
            Overloaded: the queue is full; nothing of this call was begun.
            DeadlineExceeded: the answer came too late.
            EmbeddingUnavailable: the model failed, or is closed.

        """
        queue = self._urgent if urgent else self._patient
        alive = sum(not one.answer.done() for one in queue)
        if alive + len(texts) > self._limit:
            raise Overloaded("Too many texts wait to be embedded. Try again in a moment.", retry_after_ms=1000)
        if self._task.done():
            raise EmbeddingUnavailable("The embedding model is closed.")
        loop = asyncio.get_running_loop()
        waiting = [_Waiting(text, loop.create_future()) for text in texts]
        queue.extend(waiting)
        self._wake.set()
        try:
            async with asyncio.timeout(deadline.remaining()):
                return [await one.answer for one in waiting]
        except TimeoutError as error:
            raise DeadlineExceeded("The embedding model did not answer in time. Try again.") from error
        finally:
            for one in waiting:
                if not one.answer.cancel() and not one.answer.cancelled():
                    one.answer.exception()  # retrieved, or the loop would complain of those after the first

    async def close(self) -> None:
        """Refuse what waits and stop."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._fail([*self._urgent, *self._patient], "The embedding model is closed.")

    async def _run(self) -> None:
        while True:
            batch = self._next()
            if not batch:
                self._wake.clear()
                await self._wake.wait()
                continue
            try:
                vectors = await self._encode([one.text for one in batch])
            except asyncio.CancelledError:
                self._fail(batch, "The embedding model is closed.")
                raise
            except ModelMissing as error:
                self._fail(batch, f"Embedding failed: {error}. Text search goes on working.")
            except Exception as error:  # noqa: BLE001 - one bad batch must not end the worker
                self._fail(batch, f"Embedding failed ({type(error).__name__}). Text search goes on working.")
            else:
                for one, vector in zip(batch, vectors, strict=True):
                    if not one.answer.done():
                        one.answer.set_result(vector)

    def _next(self) -> list[_Waiting]:
        batch: list[_Waiting] = []
        characters = 0
        for queue in (self._urgent, self._patient):
            while queue and len(batch) < _BATCH_TEXTS:
                if queue[0].answer.done():
                    queue.popleft()
                    continue
                characters += len(queue[0].text)
                if batch and characters > _BATCH_CHARACTERS:
                    return batch
                batch.append(queue.popleft())
        return batch

    @staticmethod
    def _fail(batch: Sequence[_Waiting], message: str) -> None:
        for one in batch:
            if not one.answer.done():
                one.answer.set_exception(EmbeddingUnavailable(message))
