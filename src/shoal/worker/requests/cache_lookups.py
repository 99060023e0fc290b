"""Cache lookups for leases that wait to start: a cached page needs no request, so its task need not wait."""

import asyncio
from collections.abc import Awaitable, Callable

from shoal.core.model import Lease
from shoal.fetch.cache.fetcher import CacheLookup
from shoal.worker.background import Background

LookUp = Callable[[Lease, int], Awaitable[CacheLookup | None]]


class CacheLookups:
    """Looks pages up in the cache while their leases are prefetched, by the number of the lease."""

    def __init__(
        self,
        look_up: LookUp,
        background: Background,
        *,
        on_hit: Callable[[Lease], None],
        forget: Callable[[int], None],
    ) -> None:
        self._look_up, self._background, self._on_hit, self._forget = look_up, background, on_hit, forget
        self._tasks: dict[int, asyncio.Task[CacheLookup | None]] = {}

    def start(self, lease: Lease, number: int) -> None:
        """Look up the page of a lease in the background; `on_hit` is called if it is cached."""
        self._tasks[number] = self._background.start(self._run(lease, number))

    async def take(self, number: int) -> CacheLookup | None:
        """Return what the lookup for a lease found, when it has ended; None if there was none."""
        task = self._tasks.pop(number, None)
        return await task if task else None

    def cancel(self, number: int) -> None:
        """Drop the lookup for a lease that is released, if there is one."""
        if task := self._tasks.pop(number, None):
            task.cancel()
            self._forget(number)

    async def _run(self, lease: Lease, number: int) -> CacheLookup | None:
        lookup = await self._look_up(lease, number)
        if lookup and lookup.page:
            self._on_hit(lease)
        return lookup
