"""The way of bundles between Redis and the broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha1

from pamqp.commands import Basic

from shoal.core.errors import QueueError, QueueFull, UnknownRun
from shoal.core.tasks import watched
from shoal.queue.intake import Intake
from shoal.queue.rabbitmq import bundle
from shoal.queue.rabbitmq.acks import LateAcks
from shoal.queue.rabbitmq.broker import PERSISTENT, Broker, Delivery, Letter
from shoal.queue.rabbitmq.bundle import NotABundle
from shoal.queue.rabbitmq.losses import Losses
from shoal.queue.rabbitmq.memory import ONLY, Cargo, Memory
from shoal.queue.rabbitmq.names import LETTERS, QueueName, RunQueues
from shoal.queue.redis.wire import Parcel, columns

SWEEP = 20  # bundles to send again in one go
SWEEP_EVERY = 5.0  # seconds
MOST, ENOUGH_BYTES = 16, 50_000  # of one landing, so that it stays short
ROUNDS = 20
UNKNOWN = -1

log = logging.getLogger(__name__)
Door = Callable[[str], Awaitable[Intake]]


class River:
    """Sends bundles, brings them ashore, and deals with what is no bundle."""

    def __init__(self, broker: Broker, memory: Memory, store: str, intake: Door) -> None:
        self._broker, self._memory, self._store, self._intake = broker, memory, store, intake
        self._acks = LateAcks(broker, memory)
        self._losses = Losses(memory, self._is_empty)
        self._sweeping: asyncio.Task[None] | None = None
        self._next_sweep = 0.0

    async def close(self) -> None:
        """Stop what goes on in the background."""
        await self._acks.close()
        await self._losses.close()
        if self._sweeping:
            self._sweeping.cancel()
            await asyncio.wait([self._sweeping])

    def queues(self, run_id: str, number: int) -> RunQueues:
        """Return the queues of a run."""
        return RunQueues(self._store, run_id, number)

    async def carry(self, cargo: Sequence[Cargo], wait: bool) -> None:
        """Hand bundles to the broker, and let Redis forget their bodies once they are safe there."""
        await self._broker.publish([letter for one in cargo for letter in self._letters(one)], wait=wait)
        gone = await self._memory.call("sent", ONLY, *(one.name for one in cargo))
        if gone:
            await self._drop_orphans({(run_id.decode(), int(number)) for run_id, number in gone}, cargo)

    async def sweep(self, within: float | None = None) -> None:
        """Send again what somebody noted and then could not send; wait for it only so many seconds.

        It goes on in the background, and begins once every few seconds at most: what is already in the
        broker must be had while the broker takes nothing new.
        """
        now = asyncio.get_running_loop().time()
        if self._sweeping is None and now >= self._next_sweep:
            self._next_sweep = now + SWEEP_EVERY
            self._sweeping = watched(asyncio.create_task(self._sweep()))
        if self._sweeping:
            await asyncio.wait([self._sweeping], timeout=within)

    async def _sweep(self) -> None:
        try:
            while int(await self._memory.call("unsent", ONLY, SWEEP)) == SWEEP:
                pass
        except QueueFull as error:
            log.warning("Bundles of new tasks wait in Redis: %s", error)
        except QueueError as error:
            log.warning("Bundles could not be sent again: %s", error)
        finally:
            self._sweeping = None

    async def found_empty(self, run_id: str, number: int, way: int) -> None:
        """Note that the broker has nothing on a way on which Redis expects something."""
        await self._losses.found_empty(run_id, number, way)

    async def _is_empty(self, run_id: str, number: int, way: int) -> bool:
        """Look whether the broker has a message on a way; it stays there."""
        for queue in self.queues(run_id, number).where(way):
            if delivery := await self._broker.fetch(queue):
                await self._broker.put_back(delivery)
                return False
        return True

    async def land(self, run_id: str, number: int, way: int, enough: int) -> int:
        """Bring bundles ashore until there are enough tasks; return how many messages came."""
        queues = self.queues(run_id, number)
        came = tasks = 0
        for queue in queues.where(way):
            for _ in range(ROUNDS):
                if tasks >= enough or not (deliveries := await self._fetch_some(queue)):
                    break
                came += len(deliveries)
                tasks += await self._land(queues, run_id, number, deliveries)
        return came

    async def drop(self, run_id: str, number: int, ways: Sequence[int]) -> None:
        """Delete the queues of a run."""
        await self._broker.delete(self.queues(run_id, number).every(ways))

    async def _drop_orphans(self, runs: set[tuple[str, int]], cargo: Sequence[Cargo]) -> None:
        """Delete the queues that were made for a run after it was purged."""
        for run_id, number in runs:
            await self.drop(run_id, number, [one.way for one in cargo])

    async def _fetch_some(self, queue: QueueName) -> list[Delivery]:
        """Take a few bundles at once: the tasks of a host then lie together, and cost less to hand out."""
        deliveries: list[Delivery] = []
        size = 0
        try:
            while len(deliveries) < MOST and size < ENOUGH_BYTES:
                delivery = await self._broker.fetch(queue)
                if delivery is None:
                    break
                deliveries.append(delivery)
                size += len(delivery.body)
        except BaseException:
            await self._put_back(deliveries)
            raise
        return deliveries

    async def _land(self, queues: RunQueues, run_id: str, number: int, deliveries: Sequence[Delivery]) -> int:
        bodies = [delivery.body for delivery in deliveries]
        entered = 0
        try:
            counts = [int(count) for count in await self._memory.call("land", ONLY, number, *bodies)]
            for body, count in zip(bodies, counts, strict=True):
                if count == UNKNOWN:
                    entered += await self._identify(queues.dead, run_id, number, body)
        except BaseException:
            await self._put_back(deliveries)
            raise
        for delivery, count in zip(deliveries, counts, strict=True):
            if count >= 0:
                self._acks.add(number, sha1(delivery.body, usedforsecurity=False).hexdigest(), delivery)
            else:
                await self._broker.acknowledge(delivery)
        return entered + sum(max(0, count) for count in counts)

    async def _put_back(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            await self._broker.put_back(delivery)

    async def _identify(self, dead: QueueName, run_id: str, number: int, body: bytes) -> int:
        """Deal with a message that Redis does not expect; return how many tasks it brought.

        A bundle that came ashore before is known by its tasks' keys. One that Redis has lost with its
        last second enters anew. Anything else goes to the dead-letter queue.
        """
        try:
            header, elements = bundle.read(body)
            if (header.run_id, header.number) != (run_id, number):
                raise NotABundle(f"it belongs to the run {header.run_id}")
            parcels = bundle.parcels(header, elements, await self._intake(run_id))
            return await self._enter_anew(run_id, str(header.made), parcels)
        except NotABundle as error:
            log.warning("odd message queue=%s reason=%s", dead.name, error)
            await self._broker.publish([Letter(dead, body, _properties({"reason": str(error)[:1000]}))])
        except UnknownRun:
            pass  # purged meanwhile, and its queues with it
        return 0

    async def _enter_anew(self, run_id: str, made: str, parcels: Sequence[Parcel]) -> int:
        elements = (one.element for one in parcels)
        added, _ = await self._memory.once("enqueue", ONLY, run_id, columns(parcels), made, *elements)
        return int(added)

    def _letters(self, cargo: Cargo) -> list[Letter]:
        queue = self.queues(cargo.run_id, cargo.number).of(cargo.way)
        if cargo.way != LETTERS:
            return [Letter(queue, cargo.body, _properties({"run": cargo.run_id}))]
        return [
            Letter(queue, text, _properties({"run": cargo.run_id}, "application/json"))
            for text in bundle.letters_as_json(cargo.body, cargo.run_id)
        ]


def _properties(headers: dict[str, str], content_type: str = "application/msgpack") -> Basic.Properties:
    return Basic.Properties(
        delivery_mode=PERSISTENT, content_type=content_type, app_id="shoal", headers=dict(headers)
    )
