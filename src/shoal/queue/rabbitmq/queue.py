"""The queue on RabbitMQ: the verbs of the Redis queue, with the tasks that wait in the broker's hands."""

from collections.abc import Callable, Sequence
from datetime import timedelta
from secrets import token_hex
from typing import Self

from shoal.core.errors import UnknownRun
from shoal.core.model import SECOND, Grant
from shoal.queue.contract import DEFAULT_LEASE, Fence
from shoal.queue.rabbitmq.address import read
from shoal.queue.rabbitmq.broker import Broker
from shoal.queue.rabbitmq.claiming import Claiming, Clock
from shoal.queue.rabbitmq.memory import ONLY, Memory, Told
from shoal.queue.rabbitmq.river import River
from shoal.queue.redis.claiming import Wish
from shoal.queue.redis.migrate import migrate
from shoal.queue.redis.queue import RedisQueue, no_skew
from shoal.queue.redis.runs import Runs
from shoal.queue.redis.server import Argument
from shoal.queue.rules import check_claim

PATIENCE = 30 * SECOND
LONGEST_ASHORE = 10.0  # seconds that a reclaim may spend on one run's bundles


class RiverRuns(Runs):
    """The list of runs; the queues of a purged run are deleted with it."""

    def __init__(self, memory: Memory, river: River) -> None:
        super().__init__(memory, 1)
        self._river = river

    async def _clear(self, run_id: str, number: int) -> None:
        ways = await self._server.command("SMEMBERS", self._server.key(ONLY, f"{number}:ways"))
        if ways:
            await self._river.drop(run_id, number, [int(way) for way in ways])
        await super()._clear(run_id, number)


class RabbitQueue(RedisQueue):
    """A queue whose waiting tasks are in RabbitMQ and whose memory is in Redis."""

    _server: Memory

    def __init__(self, broker: Broker, memory: Memory, store: str) -> None:
        super().__init__(memory, 1)
        self._broker = broker
        self._river = River(broker, memory, store, self._intake)
        self._runs = RiverRuns(memory, self._river)
        memory.carry = self._river.carry

    @classmethod
    async def open(
        cls, url: str, *, patience: timedelta = PATIENCE, skew: Callable[[], timedelta] = no_skew
    ) -> Self:
        """Connect to both servers; raises QueueUnavailable once patience is over."""
        address = read(url)
        broker = Broker(address.urls, address.shown, patience=patience)
        memory = Memory(address.state, patience=patience, skew=skew)
        try:
            await memory.open()
            await migrate(memory, 1)
            store = address.within + (await memory.call("store", ONLY, token_hex(4))).decode()
            await broker.open()
        except BaseException:
            await memory.close()
            await broker.close()
            raise
        return cls(broker, memory, store)

    async def close(self) -> None:
        await self._river.close()
        await self._broker.close()
        await super().close()

    async def durability(self) -> str:
        said = await super().durability()
        return f"RabbitMQ has every waiting task on its disk before it counts as queued. Beside it: {said}"

    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        fence: Fence | None = None,
    ) -> Grant:
        check_claim(limit, lease, fence)
        wish = Wish(worker_id, run_id, limit, lease, steps, partitions, fence)

        async def ask(*args: Argument) -> Told:
            try:
                return await self._server.told_once("claim", run_id, *args)
            except UnknownRun:
                await self._number(run_id)  # which says what the run may be called
                raise

        async def land(number: int, way: int, enough: int) -> int:
            return await self._river.land(run_id, number, way, enough)

        async def found_empty(number: int, way: int) -> None:
            await self._river.found_empty(run_id, number, way)

        return await Claiming(wish, ask, land, self._river.sweep, found_empty).grant()

    async def _is_afloat(self, number: int) -> bool:
        return bool(await self._server.command("HLEN", self._server.key(ONLY, f"{number}:bundles")))

    async def reclaim(self) -> int:
        count, more = 0, 1
        while more:
            told = await self._server.told_once("reclaim")
            (lost, more, left), (ashore, overdue) = told.answer, told.extra
            count += int(lost)
            for run_id, number, way in ashore:
                await self._bring_ashore(run_id.decode(), int(number), int(way))
            if overdue:
                await self._river.sweep()
        if left:
            await self._runs.finish_what_others_left()
        return count

    async def _bring_ashore(self, run_id: str, number: int, way: int) -> None:
        """Bring the bundles ashore whose time has come, as far as they can be had."""
        clock = Clock.start(LONGEST_ASHORE)
        while way >= 0 and clock.left > 0:
            if not await self._river.land(run_id, number, way, 1):
                await self._river.found_empty(run_id, number, way)
                return
            way = int(await self._server.call("tide", ONLY, number))
