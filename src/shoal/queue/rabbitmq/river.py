"""The way of bundles between Redis and the broker."""

import logging
from collections.abc import Awaitable, Callable, Sequence

from pamqp.commands import Basic

from shoal.core.errors import UnknownRun
from shoal.queue.intake import Intake
from shoal.queue.rabbitmq import bundle
from shoal.queue.rabbitmq.broker import PERSISTENT, Broker, Delivery, Letter
from shoal.queue.rabbitmq.bundle import NotABundle
from shoal.queue.rabbitmq.memory import ONLY, Cargo, Memory
from shoal.queue.rabbitmq.names import LETTERS, QueueName, RunQueues
from shoal.queue.redis.wire import Parcel, columns

SWEEP = 20  # bundles to send again in one go
MOST, ENOUGH_BYTES = 16, 50_000  # of one landing, so that it stays short
ROUNDS = 20
UNKNOWN = -1

log = logging.getLogger(__name__)
Door = Callable[[str], Awaitable[Intake]]


class River:
    """Sends bundles, brings them ashore, and deals with what is no bundle."""

    def __init__(self, broker: Broker, memory: Memory, store: str, intake: Door) -> None:
        self._broker, self._memory, self._store, self._intake = broker, memory, store, intake

    def queues(self, run_id: str, number: int) -> RunQueues:
        """Return the queues of a run."""
        return RunQueues(self._store, run_id, number)

    async def carry(self, cargo: Sequence[Cargo]) -> None:
        """Hand bundles to the broker, and let Redis forget their bodies once they are safe there."""
        await self._broker.publish([letter for one in cargo for letter in self._letters(one)])
        gone = await self._memory.call("sent", ONLY, *(one.name for one in cargo))
        if gone:
            await self._drop_orphans({(run_id.decode(), int(number)) for run_id, number in gone}, cargo)

    async def sweep(self) -> None:
        """Send again what somebody noted and then could not send."""
        while int(await self._memory.call("unsent", ONLY, SWEEP)) == SWEEP:
            pass

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
        try:
            counts = [int(count) for count in await self._memory.call("land", ONLY, number, *bodies)]
            for place, count in enumerate(counts):
                if count == UNKNOWN:
                    counts[place] = await self._identify(queues.dead, run_id, number, bodies[place])
        except BaseException:
            await self._put_back(deliveries)
            raise
        for delivery in deliveries:
            await self._broker.acknowledge(delivery)
        return sum(max(0, count) for count in counts)

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
        return int(await self._memory.once("enqueue", ONLY, run_id, columns(parcels), made, *elements))

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
