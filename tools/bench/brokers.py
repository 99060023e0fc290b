"""The stores on brokers: Redis that keeps its log, and RabbitMQ with such a Redis beside it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import aiormq

from shoal.queue.open import open_queue
from tests.servers.process import wait_until
from tests.servers.rabbitmq import RabbitServer
from tests.servers.redis import RedisServer
from tools.bench.processes import cpu_of_family
from tools.bench.stores import Store

_DATABASES = range(1, 64)
_REWRITE = 120.0  # seconds that Redis may take to write its log anew
_PURGE = 120.0
_MEMORY = "[garbage_collect(Process) || Process <- processes()], erlang:memory(total)."
_LEFTOVERS = ("", ".DQ", ".XQ", ".dead")  # what peers put behind the name of a queue


class RedisStore(Store):
    """Logical databases of one server, which appends to its log and syncs it every second."""

    name = "redis"
    loaders = 2

    def __init__(self, server: RedisServer) -> None:
        self._server = server
        self._free = list(_DATABASES)

    @asynccontextmanager
    async def room(self) -> AsyncIterator[str]:
        number = self._free.pop(0)
        try:
            yield self._server.url(number)
        finally:
            self._server.cli("-n", number, "FLUSHDB")
            self._free.append(number)

    def rest(self, address: str) -> None:
        wait_until(self._is_at_rest, "Redis to write its log anew", _REWRITE)

    def cpu(self) -> float:
        return cpu_of_family(self._server.pid)

    def memory(self) -> Mapping[str, float]:
        return {"redis": float(self._info("memory")["used_memory"])}

    def about(self) -> Mapping[str, str]:
        kept = ("appendonly", "appendfsync")
        settings = {name: self._server.cli("CONFIG", "GET", name).split()[-1] for name in kept}
        return {"version": self._info("server")["redis_version"], **settings}

    def _is_at_rest(self) -> bool:
        now = self._info("persistence")
        return now["aof_rewrite_in_progress"] == now["aof_rewrite_scheduled"] == "0"

    def _info(self, section: str) -> dict[str, str]:
        lines = self._server.cli("INFO", section).splitlines()
        return dict(line.strip().split(":", 1) for line in lines if ":" in line)


class RabbitStore(Store):
    """Queues of one node, and databases of the Redis that remembers for it."""

    name = "rabbitmq"
    loaders = 2

    def __init__(self, server: RabbitServer, state: RedisStore) -> None:
        self._server, self._state = server, state

    @asynccontextmanager
    async def room(self) -> AsyncIterator[str]:
        async with self._state.room() as state:
            address = self._server.with_state(state)
            yield address
            async with asyncio.timeout(_PURGE), open_queue(address) as queue:
                for run in await queue.runs():
                    await queue.purge(run.id)

    def rest(self, address: str) -> None:
        self._state.rest(address)

    def cpu(self) -> float:
        return cpu_of_family(self._server.pid) + self._state.cpu()

    def memory(self) -> Mapping[str, float]:
        return {**self._state.memory(), "rabbitmq": float(self._server.ctl("eval", _MEMORY))}

    def about(self) -> Mapping[str, str]:
        return {"version": self._server.ctl("version")}

    async def forget(self, queue: str) -> None:
        async with aiormq.connect(self._server.url) as connection:
            channel = await connection.channel()
            for ending in _LEFTOVERS:
                await channel.queue_delete(queue + ending)
