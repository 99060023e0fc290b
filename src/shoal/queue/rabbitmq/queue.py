"""The RabbitMQ backend: the verbs of the Redis backend, with waiting tasks in the broker."""

from collections.abc import Callable
from datetime import timedelta
from secrets import token_hex
from typing import Self

from shoal.core.model import SECOND, Durability, Grant
from shoal.queue.contract import StoreSize
from shoal.queue.outages import RETRY_TIMEOUT
from shoal.queue.rabbitmq.address import read
from shoal.queue.rabbitmq.broker import Broker
from shoal.queue.rabbitmq.claim import RabbitClaim, TimeBudget
from shoal.queue.rabbitmq.state import ONLY, ScriptReply, StateStore
from shoal.queue.rabbitmq.transport import BundleTransport
from shoal.queue.redis.migrate import migrate, version
from shoal.queue.redis.queue import RedisQueue, no_skew
from shoal.queue.redis.runs import RunList
from shoal.queue.redis.server import Argument
from shoal.queue.requests import ClaimRequest
from shoal.queue.schema import SchemaVersions

RECLAIM_TIMEOUT = 10 * SECOND  # that a reclaim may spend on the bundles of one run


class RabbitRuns(RunList):
    """The list of runs; the queues of a purged run are deleted with it."""

    def __init__(self, state: StateStore, transport: BundleTransport) -> None:
        super().__init__(state, 1)
        self._transport = transport

    async def _clear(self, run_id: str, number: int) -> None:
        routes = await self._server.command("SMEMBERS", self._server.key(ONLY, f"{number}:routes"))
        if routes:
            await self._transport.drop(run_id, number, [int(route) for route in routes])
        await super()._clear(run_id, number)


class RabbitQueue(RedisQueue):
    """A queue whose waiting tasks are in RabbitMQ and whose state is in Redis."""

    _server: StateStore

    def __init__(self, broker: Broker, state: StateStore, store: str) -> None:
        self._broker = broker
        self._transport = BundleTransport(broker, state, store, self._intake)
        super().__init__(state, 1, RabbitRuns(state, self._transport))
        state.publish = self._transport.publish

    @classmethod
    async def open(
        cls, url: str, *, patience: timedelta = RETRY_TIMEOUT, skew: Callable[[], timedelta] = no_skew
    ) -> Self:
        """Connect to both servers; raises QueueUnavailable when `patience` is over."""
        address = read(url)
        broker = Broker(address.urls, address.shown, patience=patience)
        state = StateStore(address.state, patience=patience, skew=skew)
        try:
            await state.open()
            await migrate(state, 1, is_state=True)
            store = address.prefix + (await state.call("store", ONLY, token_hex(4))).decode()
            await broker.open()
        except BaseException:
            await state.close()
            await broker.close()
            raise
        return cls(broker, state, store)

    async def close(self) -> None:
        await self._transport.close()
        await self._broker.close()
        await super().close()

    async def migrate(self) -> int:
        return await migrate(self._server, 1, is_state=True)

    async def durability(self) -> Durability:
        state = await super().durability()
        return Durability(
            state.safe,
            "RabbitMQ writes every waiting task to disk before it counts as queued. "
            f"The Redis beside it: {state.text}",
        )

    async def size(self) -> StoreSize:
        state = await super().size()
        return StoreSize(state.bytes, f"{state.text}; the waiting tasks in RabbitMQ are not counted")

    async def _claim(self, request: ClaimRequest) -> Grant:
        run_id = request.run_id

        async def run_script(*args: Argument) -> ScriptReply:
            return await self._server.reply_once("claim", run_id, *args)

        async def receive(number: int, route: int, enough: int) -> int:
            return await self._transport.receive(run_id, number, route, enough)

        async def report_empty(number: int, route: int) -> None:
            await self._transport.report_empty(run_id, number, route)

        claim = RabbitClaim(request, run_script, receive, self._transport.resend, report_empty)
        return await claim.grant()

    async def _has_unlisted_tasks(self, number: int) -> bool:
        return bool(await self._server.command("HLEN", self._server.key(ONLY, f"{number}:bundles")))

    async def reclaim(self) -> int:
        count, more = 0, 1
        while more:
            reply = await self._server.reply_once("reclaim")
            (lost, more, left), (due_runs, overdue) = reply.result, reply.extra
            count += int(lost)
            for run_id, number, route in due_runs:
                await self._receive_due(run_id.decode(), int(number), int(route))
            if overdue:
                await self._transport.resend()
        if left:
            await self._runs.finish_interrupted()
        return count

    async def _receive_due(self, run_id: str, number: int, route: int) -> None:
        """Receive the due bundles of a run, as far as the broker has them."""
        budget = TimeBudget.start(RECLAIM_TIMEOUT)
        while route >= 0 and budget.left > 0:
            if not await self._transport.receive(run_id, number, route, 1):
                await self._transport.report_empty(run_id, number, route)
                return
            route = int(await self._server.call("due_route", ONLY, number))


async def open_address(url: str, patience: timedelta) -> RabbitQueue:
    """Open the queue at an address."""
    return await RabbitQueue.open(url, patience=patience)


async def read_schema(url: str, patience: timedelta) -> SchemaVersions:
    """Read the version of the state's schema, and migrate nothing."""
    return await version(StateStore(read(url).state, patience=patience, skew=no_skew))
