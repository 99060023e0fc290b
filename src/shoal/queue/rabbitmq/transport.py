"""Moves bundles between Redis and the broker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from hashlib import sha1

from pamqp.commands import Basic

from shoal.core.errors import QueueError, QueueFull, UnknownRun
from shoal.core.model import SECOND
from shoal.core.tasks import watched
from shoal.queue.intake import Intake
from shoal.queue.rabbitmq import bundle
from shoal.queue.rabbitmq.acks import LateAcks
from shoal.queue.rabbitmq.broker import PERSISTENT, Broker, BrokerMessage, Delivery
from shoal.queue.rabbitmq.bundle import NotABundle
from shoal.queue.rabbitmq.losses import LostBundles
from shoal.queue.rabbitmq.names import DEAD_LETTERS, QueueName, RunQueues
from shoal.queue.rabbitmq.state import ONLY, OutgoingBundle, StateStore
from shoal.queue.redis.records import PackedTask, columns

RESEND_BATCH = 20  # bundles of one call
RESEND_INTERVAL = 5 * SECOND
MAX_RECEIVED, MAX_RECEIVED_BYTES = 16, 50_000  # of one call, so that it stays short
MAX_ROUNDS = 20
UNKNOWN = -1

log = logging.getLogger(__name__)
GetIntake = Callable[[str], Awaitable[Intake]]


class BundleTransport:
    """Publishes and receives bundles, and handles messages that are no bundles."""

    def __init__(self, broker: Broker, state: StateStore, store: str, intake: GetIntake) -> None:
        self._broker, self._state, self._store, self._intake = broker, state, store, intake
        self._acks = LateAcks(broker, state)
        self._losses = LostBundles(state, self._is_empty)
        self._resending: asyncio.Task[None] | None = None
        self._next_resend = 0.0

    async def close(self) -> None:
        """Stop the background tasks."""
        await self._acks.close()
        await self._losses.close()
        if self._resending:
            self._resending.cancel()
            await asyncio.wait([self._resending])

    def queues(self, run_id: str, number: int) -> RunQueues:
        """Return the queues of a run."""
        return RunQueues(self._store, run_id, number)

    async def publish(self, bundles: Sequence[OutgoingBundle], wait: bool) -> None:
        """Publish bundles, and let Redis delete their bodies once the broker has confirmed them."""
        await self._broker.publish([message for one in bundles for message in self._messages(one)], wait=wait)
        purged = await self._state.call("confirm_sent", ONLY, *(one.name for one in bundles))
        if purged:
            await self._drop_orphans({(run_id.decode(), int(number)) for run_id, number in purged}, bundles)

    async def resend(self, timeout: timedelta | None = None) -> None:
        """Publish bundles that a client could not publish; wait at most `timeout`.

        It runs in the background, and starts at most once every few seconds: what is already in the broker
        must be received while the broker accepts nothing new.
        """
        now = asyncio.get_running_loop().time()
        if self._resending is None and now >= self._next_resend:
            self._next_resend = now + RESEND_INTERVAL.total_seconds()
            self._resending = watched(asyncio.create_task(self._resend()))
        if self._resending:
            seconds = None if timeout is None else timeout.total_seconds()
            await asyncio.wait([self._resending], timeout=seconds)

    async def _resend(self) -> None:
        try:
            while int(await self._state.call("resend", ONLY, RESEND_BATCH)) == RESEND_BATCH:
                pass
        except QueueFull as error:
            log.warning("Bundles of new tasks wait in Redis: %s", error)
        except QueueError as error:
            log.warning("Bundles could not be sent again: %s", error)
        finally:
            self._resending = None

    async def report_empty(self, run_id: str, number: int, route: int) -> None:
        """Report that the broker has nothing on a route on which Redis expects something."""
        await self._losses.report_empty(run_id, number, route)

    async def _is_empty(self, run_id: str, number: int, route: int) -> bool:
        """Return whether the broker has no message on a route; a message that is found stays there."""
        for queue in self.queues(run_id, number).sources(route):
            if delivery := await self._broker.fetch(queue):
                await self._broker.requeue(delivery)
                return False
        return True

    async def receive(self, run_id: str, number: int, route: int, enough: int) -> int:
        """Receive bundles until there are enough tasks; return the number of messages."""
        queues = self.queues(run_id, number)
        messages = tasks = 0
        for queue in queues.sources(route):
            for _ in range(MAX_ROUNDS):
                if tasks >= enough or not (deliveries := await self._fetch_some(queue)):
                    break
                messages += len(deliveries)
                tasks += await self._receive(queues, run_id, number, deliveries)
        return messages

    async def drop(self, run_id: str, number: int, routes: Sequence[int]) -> None:
        """Delete the queues of a run."""
        await self._broker.delete(self.queues(run_id, number).every(routes))

    async def _drop_orphans(self, runs: set[tuple[str, int]], bundles: Sequence[OutgoingBundle]) -> None:
        """Delete the queues that were declared for a run after it was purged."""
        for run_id, number in runs:
            await self.drop(run_id, number, [one.route for one in bundles])

    async def _fetch_some(self, queue: QueueName) -> list[Delivery]:
        """Fetch a few bundles at once: the tasks of a host are then adjacent, and cost less to claim."""
        deliveries: list[Delivery] = []
        size = 0
        try:
            while len(deliveries) < MAX_RECEIVED and size < MAX_RECEIVED_BYTES:
                delivery = await self._broker.fetch(queue)
                if delivery is None:
                    break
                deliveries.append(delivery)
                size += len(delivery.body)
        except BaseException:
            await self._requeue(deliveries)
            raise
        return deliveries

    async def _receive(
        self, queues: RunQueues, run_id: str, number: int, deliveries: Sequence[Delivery]
    ) -> int:
        bodies = [delivery.body for delivery in deliveries]
        entered = 0
        try:
            counts = [int(count) for count in await self._state.call("receive", ONLY, number, *bodies)]
            for body, count in zip(bodies, counts, strict=True):
                if count == UNKNOWN:
                    entered += await self._handle_unknown(queues.dead, run_id, number, body)
        except BaseException:
            await self._requeue(deliveries)
            raise
        for delivery, count in zip(deliveries, counts, strict=True):
            if count >= 0:
                self._acks.add(number, sha1(delivery.body, usedforsecurity=False).hexdigest(), delivery)
            else:
                await self._broker.acknowledge(delivery)
        return entered + sum(max(0, count) for count in counts)

    async def _requeue(self, deliveries: Sequence[Delivery]) -> None:
        for delivery in deliveries:
            await self._broker.requeue(delivery)

    async def _handle_unknown(self, dead: QueueName, run_id: str, number: int, body: bytes) -> int:
        """Handle a message that Redis does not expect; return the number of tasks that entered.

        The keys of its tasks show that a bundle was received before. The tasks of a bundle that Redis lost
        with its last second enter again. Anything else goes to the dead-letter queue.
        """
        try:
            header, elements = bundle.read(body)
            if (header.run_id, header.number) != (run_id, number):
                raise NotABundle(f"it belongs to the run {header.run_id}")
            tasks = bundle.tasks(header, elements, await self._intake(run_id))
            return await self._enqueue_again(run_id, str(header.made), tasks)
        except NotABundle as error:
            log.warning("odd message queue=%s reason=%s", dead.name, error)
            await self._broker.publish(
                [BrokerMessage(dead, body, _properties({"reason": str(error)[:1000]}))]
            )
        except UnknownRun:
            pass  # purged in the meantime, and its queues with it
        return 0

    async def _enqueue_again(self, run_id: str, made: str, tasks: Sequence[PackedTask]) -> int:
        elements = (one.element for one in tasks)
        added, _ = await self._state.once("enqueue", ONLY, run_id, columns(tasks), made, *elements)
        return int(added)

    def _messages(self, outgoing: OutgoingBundle) -> list[BrokerMessage]:
        queue = self.queues(outgoing.run_id, outgoing.number).of(outgoing.route)
        if outgoing.route != DEAD_LETTERS:
            return [BrokerMessage(queue, outgoing.body, _properties({"run": outgoing.run_id}))]
        return [
            BrokerMessage(queue, text, _properties({"run": outgoing.run_id}, "application/json"))
            for text in bundle.letters_as_json(outgoing.body, outgoing.run_id)
        ]


def _properties(headers: dict[str, str], content_type: str = "application/msgpack") -> Basic.Properties:
    return Basic.Properties(
        delivery_mode=PERSISTENT, content_type=content_type, app_id="shoal", headers=dict(headers)
    )
