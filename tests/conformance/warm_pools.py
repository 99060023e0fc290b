"""Connections to PostgreSQL that one test's queue leaves to the next one's.

A new connection has to load the catalogue and to compile every function again, which takes ten times as long
as the calls of a usual test.
"""

import asyncio
from collections import defaultdict
from typing import Any

import asyncpg


class WarmPools:
    """Makes pools like `asyncpg.create_pool`, and keeps them open for the next queue of its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._make = asyncpg.create_pool
        self._idle: defaultdict[str, list[Any]] = defaultdict(list)

    async def create_pool(self, url: str, **options: Any) -> Any:
        """Return an idle pool with these options, else a new one."""
        if asyncio.get_running_loop() is not self._loop:
            return await self._make(url, **options)
        idle = self._idle[f"{url} {sorted(options.items())}"]
        return LentPool(idle.pop() if idle else await self._make(url, **options), idle)

    async def close(self) -> None:
        """Close every idle pool."""
        for pools in self._idle.values():
            for pool in pools:
                await pool.close()


class LentPool:
    """A pool whose end is to be idle, unless a connection is still in use."""

    def __init__(self, pool: Any, idle: list[Any]) -> None:
        self._pool, self._idle = pool, idle

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)

    async def close(self) -> None:
        if self._pool.get_idle_size() < self._pool.get_size():
            await self._pool.close()
        else:
            self._idle.append(self._pool)
