"""What every tool call passes, over HTTP and over standard streams alike: tokens, a slot, a deadline."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

from app.context import Principal, RequestContext
from app.contract import Cost, DeadlineClass, Tool
from app.errors import InternalError, RateLimited
from app.limits.bucket import Bucket, LocalBucket, Rate
from app.limits.bulkhead import Bulkhead, Kind
from app.limits.deadlines import Deadlines
from app.settings import LimitSettings

__all__ = ["Limits", "kind_of"]

_DOWNLOADS: Final = 4
"""Of one tenant, under way at once."""


def kind_of(tool: Tool) -> Kind:
    """At which bulkhead a tool waits."""
    if tool.cost is Cost.WHOLE_GRAPH or tool.deadline is DeadlineClass.WHOLE_GRAPH:
        return Kind.WHOLE_GRAPH
    return Kind.READ if tool.read_only else Kind.WRITE


class Limits:
    """Spends by (tenant, client), never by network address: all users of a hosted connector share a few of those."""

    def __init__(self, settings: LimitSettings, *, pool_size: int, uploads: int = 4) -> None:
        self.bucket = _bucket(settings)
        self._rate = Rate(settings.calls_per_minute, settings.burst)
        self.bulkhead = Bulkhead(
            slots={
                Kind.READ: settings.concurrent_reads,
                Kind.WRITE: settings.concurrent_writes,
                Kind.WHOLE_GRAPH: settings.concurrent_whole_graph,
            },
            # Some connections stay free for sign-in, the snapshot and the probes.
            total=max(2, pool_size * 4 // 5),
            wait=settings.queue_seconds,
            # A tenant that only waits must not use up the requests that may be open.
            queue=max(1, settings.open_requests // 4),
        )
        # An upload waits for its sender, not for the database: it takes no call's place, nor one sender all places.
        self.senders = Bulkhead(
            slots=dict.fromkeys(Kind, max(1, uploads // 2)),
            total=settings.open_requests,
            wait=settings.queue_seconds,
            queue=max(1, settings.open_requests // 16),
        )
        self.uploads = Bulkhead(
            slots=dict.fromkeys(Kind, uploads),
            total=max(uploads, settings.open_requests // 8),
            wait=settings.queue_seconds,
            queue=max(1, settings.open_requests // 16),
        )
        # Nor does a download, which waits for who reads it.
        self.downloads = Bulkhead(
            slots=dict.fromkeys(Kind, _DOWNLOADS),
            total=max(_DOWNLOADS, settings.open_requests // 8),
            wait=settings.queue_seconds,
            queue=max(1, settings.open_requests // 16),
        )
        self.deadlines = Deadlines(settings)

    @asynccontextmanager
    async def admit(self, context: RequestContext, tool: Tool | None) -> AsyncIterator[RequestContext]:
        """Let a call of ``tool`` (None: there is no such tool) run inside the block, with its deadline in the context.

        Raises:
            RateLimited: the bucket is empty. Overloaded: no slot became free in time.
        """
        if context.principal is None:
            raise InternalError("a call reached the limits without a principal")
        await self._spend(context.principal, tool)
        if tool is None:  # the protocol says what is wrong with the name
            yield context
            return
        deadline = self.deadlines.of(tool.deadline)
        async with self.bulkhead.slot(context.principal.tenant, kind_of(tool)):
            yield context.due(deadline)

    @asynccontextmanager
    async def upload(self, context: RequestContext, tool: Tool) -> AsyncIterator[None]:
        """Let an upload, which costs what a call of ``tool`` does, run inside the block.

        Raises:
            RateLimited: the bucket is empty. Overloaded: no slot became free in time.
        """
        principal = context.principal
        if principal is None:
            raise InternalError("an upload reached the limits without a principal")
        await self._spend(principal, tool)
        async with (
            self.senders.slot(f"{principal.tenant}\0{principal.subject}", Kind.WRITE),
            self.uploads.slot(principal.tenant, Kind.WRITE),
        ):
            yield

    @asynccontextmanager
    async def download(self, context: RequestContext, tool: Tool) -> AsyncIterator[None]:
        """Let a download, which costs what a call of ``tool`` does, run inside the block.

        Raises:
            RateLimited: the bucket is empty. Overloaded: no slot became free in time.
        """
        if context.principal is None:
            raise InternalError("a download reached the limits without a principal")
        await self._spend(context.principal, tool)
        async with self.downloads.slot(context.principal.tenant, Kind.READ):
            yield

    async def close(self) -> None:
        """Let go of the bucket's connections."""
        await self.bucket.close()

    async def _spend(self, principal: Principal, tool: Tool | None) -> None:
        cost = int(tool.cost if tool is not None else Cost.PLAIN)
        if cost == Cost.NOTHING:
            return
        seconds = await self.bucket.spend(f"{principal.tenant}\0{principal.client}", cost, self._rate_of(principal))
        if seconds > 0:
            raise RateLimited(
                f"This client has used up its calls for now; nothing was done. Try again in {seconds:.1f} s.",
                retry_after_ms=max(1, round(seconds * 1000)),
            )

    def _rate_of(self, principal: Principal) -> Rate:
        own = principal.rules
        if own.calls_per_minute is None and own.burst is None:
            return self._rate
        return Rate(own.calls_per_minute or self._rate.per_minute, own.burst or self._rate.burst)


def _bucket(settings: LimitSettings) -> Bucket:
    local = LocalBucket()
    if settings.redis_url is None:
        return local
    from app.limits.redis import RedisBucket

    return RedisBucket(settings.redis_url.get_secret_value(), fallback=local)
