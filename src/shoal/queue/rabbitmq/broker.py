"""The connections to RabbitMQ, and what to do when one is lost."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any, TypeVar

import aiormq
from aiormq.abc import AbstractChannel, AbstractConnection
from aiormq.exceptions import (
    AMQPChannelError,
    ChannelInvalidStateError,
    ChannelNotFoundEntity,
    ChannelPreconditionFailed,
    DeliveryError,
    PublishError,
)
from pamqp.commands import Basic

from shoal.core.errors import QueueError, QueueFull
from shoal.core.tasks import watched
from shoal.queue.patience import Obedience, Outage, Patience
from shoal.queue.rabbitmq.names import QueueName
from shoal.queue.rabbitmq.translate import ERRORS, is_passing, is_unwelcome, reason_of, translated

LONGEST_CALL = 10.0  # seconds; a broker that says nothing for so long is given up, and the call repeated
LONGEST_FAREWELL = 1.0
PERSISTENT = 2

Answer = TypeVar("Answer")
# The driver reports every lost connection with a traceback, which nobody needs who has not asked for logs.
logging.getLogger("aiormq").addHandler(logging.NullHandler())


@dataclass(frozen=True, slots=True)
class Letter:
    """A message on its way out."""

    queue: QueueName
    body: bytes
    properties: Basic.Properties


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message that was fetched, and must be acknowledged or put back on the channel it came by."""

    body: bytes
    tag: int
    channel: AbstractChannel


class _Missing(Exception):
    """A queue that was there is gone."""


ON_A_CHANNEL = (_Missing, ChannelInvalidStateError, AMQPChannelError, DeliveryError)


class Link:
    """One connection with one channel, opened when needed; after trouble the next node is tried."""

    def __init__(self, urls: Sequence[str], first: int) -> None:
        self._urls, self._at = urls, first
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()
        self.starts = 0
        self.closed = self.welcome = False

    async def channel(self) -> AbstractChannel:
        """Return the open channel."""
        async with self._opening:
            if self.closed:
                raise QueueError("This queue is closed. Open it again with: open_queue(url)")
            if self._connection is None or self._connection.is_closed:
                self._channel = None
                async with asyncio.timeout(LONGEST_CALL):
                    self._connection = await _connect(self._urls[self._at % len(self._urls)])
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._connection.channel(timeout=LONGEST_CALL)
            self.welcome = True
            return self._channel

    async def is_blocked(self) -> bool:
        """Say whether the broker has told this connection to send nothing."""
        if self._connection is None:
            return False
        try:
            async with asyncio.timeout(0.01):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    async def start_afresh(self, error: BaseException, start: int) -> bool:
        """Leave behind what an error may have broken: the driver does not always say that it is."""
        if start != self.starts:
            return False  # others had the same trouble, and have started afresh already
        self.starts += 1
        self._channel = None
        if not isinstance(error, ON_A_CHANNEL):
            self._at += 1
            await self.hang_up()
        return True

    async def hang_up(self) -> None:
        """Close the connection if there is one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*ERRORS):
                async with asyncio.timeout(LONGEST_FAREWELL):
                    await connection.close()


class Broker:
    """Two connections; a call whose connection is lost is repeated.

    A broker that is short of memory or disk stops reading from connections that publish. What is fetched
    and acknowledged, which ends the shortage, has a connection of its own.
    """

    def __init__(self, urls: Sequence[str], shown: str, *, patience: timedelta) -> None:
        self.address = shown
        self._patience, self._outage = patience, Outage(self.address)
        first = random.randrange(len(urls))  # so that a fleet spreads over the nodes of a cluster
        self._out, self._in = Link(urls, first), Link(urls, first)
        self._declared: set[str] = set()
        self._returning: set[asyncio.Future[Any]] = set()

    async def open(self) -> None:
        """Make sure that the broker answers; raises QueueUnavailable or QueueRefused."""
        await self._persist(self._out, self._out.channel)

    async def close(self) -> None:
        """Close the connections."""
        self._out.closed = self._in.closed = True
        await asyncio.gather(self._out.hang_up(), self._in.hang_up())

    async def publish(self, letters: Sequence[Letter], *, wait: bool = True) -> None:
        """Hand messages to their queues, and return once the broker has them all on disk.

        Raises QueueFull when the broker takes no messages: at once if it has said so before and nobody
        shall wait for it.
        """
        if not wait and await self._out.is_blocked():
            raise self._full()
        await self._persist(self._out, lambda: self._publish(letters))

    async def fetch(self, queue: QueueName) -> Delivery | None:
        """Take the first message of a queue, None if it is empty."""
        taken: Delivery | None = None

        async def attempt() -> Delivery | None:
            nonlocal taken
            taken = await self._fetch(queue)
            return taken

        try:
            return await self._persist(self._in, attempt)
        except asyncio.CancelledError:
            if taken:  # in the moment in which the call was given up
                self._return(taken)
            raise

    async def acknowledge(self, delivery: Delivery) -> None:
        """Let the broker forget a message. Where that fails it comes once more, which is known then."""
        with suppress(*ERRORS):
            await delivery.channel.basic_ack(delivery.tag, wait=False)

    async def put_back(self, delivery: Delivery) -> None:
        """Give a message back to its queue."""
        with suppress(*ERRORS):
            await delivery.channel.basic_nack(delivery.tag, requeue=True, wait=False)

    async def delete(self, queues: Iterable[QueueName]) -> None:
        """Delete queues with all that is in them."""
        for queue in queues:
            await self._persist(self._in, partial(self._delete, queue.name))

    async def _publish(self, letters: Sequence[Letter]) -> None:
        channel = await self._out.channel()
        for queue in {letter.queue for letter in letters}:
            await self._declare(channel, queue)
        sending = [asyncio.ensure_future(_send(channel, letter)) for letter in letters]
        try:
            await asyncio.gather(*sending)
        except PublishError as error:
            raise _Missing(reason_of(error)) from error
        except TimeoutError as error:
            if await self._out.is_blocked():
                raise self._full() from error
            raise TimeoutError(f"the queue {letters[0].queue.name!r} does not answer") from error
        finally:
            for one in sending:
                one.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _fetch(self, queue: QueueName) -> Delivery | None:
        fetching = asyncio.ensure_future(self._fetch_whole(queue))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            # Half a question would close the channel for all who use it. And the message may be on its way:
            # of one that comes to nobody the broker would think for ever that somebody has it.
            self._returning.add(fetching)
            fetching.add_done_callback(self._fetched_for_nobody)
            raise

    async def _fetch_whole(self, queue: QueueName) -> Delivery | None:
        channel = await self._in.channel()
        await self._declare(channel, queue)
        try:
            message = await channel.basic_get(queue.name, timeout=LONGEST_CALL)
        except ChannelNotFoundEntity as error:
            raise _Missing(reason_of(error)) from error
        except TimeoutError as error:
            raise TimeoutError(f"the queue {queue.name!r} does not answer") from error
        tag = getattr(message.delivery, "delivery_tag", None)  # an empty queue's answer has none
        return None if tag is None else Delivery(message.body, tag, channel)

    def _fetched_for_nobody(self, fetching: "asyncio.Future[Delivery | None]") -> None:
        self._returning.discard(fetching)
        if not fetching.cancelled() and not fetching.exception() and (delivery := fetching.result()):
            self._return(delivery)

    def _return(self, delivery: Delivery) -> None:
        """Put back a message that came when nobody waited for it any more."""
        returning = watched(asyncio.ensure_future(self.put_back(delivery)))
        self._returning.add(returning)
        returning.add_done_callback(self._returning.discard)

    async def _delete(self, name: str) -> None:
        channel = await self._in.channel()
        await channel.queue_delete(name, timeout=LONGEST_CALL)
        self._declared.discard(name)

    async def _declare(self, channel: AbstractChannel, queue: QueueName) -> None:
        if queue.name in self._declared:
            return
        if "x-dead-letter-routing-key" in queue.arguments:
            await self._declare(channel, queue.behind)
        try:
            await channel.queue_declare(
                queue.name, durable=True, arguments=queue.arguments, timeout=LONGEST_CALL
            )
        except ChannelPreconditionFailed as error:
            raise translated(self.address, error, queue.name) from error
        self._declared.add(queue.name)

    def _full(self) -> QueueFull:
        return QueueFull(self.address, "RabbitMQ is short of memory or disk and takes no messages")

    async def _persist(self, link: Link, attempt: Callable[[], Awaitable[Answer]]) -> Answer:
        """Try until there is an answer or patience is over."""
        patience, obedience = Patience(self._outage, self._patience), Obedience()
        while True:
            start = link.starts
            try:
                answer = await _uncancelled(attempt)
                obedience.check()
                self._outage.end()
                return answer
            except (*ERRORS, _Missing) as error:
                obedience.check()
                # A broker that has let us in before may be starting, and its virtual hosts not be there yet.
                if not is_passing(error) or (is_unwelcome(error) and not link.welcome):
                    raise translated(self.address, error) from error
                if await link.start_afresh(error, start):
                    self._declared.clear()
                await patience.again(reason_of(error), error)


async def _uncancelled(attempt: Callable[[], Awaitable[Answer]]) -> Answer:
    """Tell a caller who was cancelled from a driver that cancels its own futures when a connection breaks."""
    try:
        return await attempt()
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionResetError("the connection was lost") from error


async def _connect(url: str) -> AbstractConnection:
    return await aiormq.connect(url)


async def _send(channel: AbstractChannel, letter: Letter) -> Any:
    # Mandatory: a message that finds no queue comes back as an error instead of being dropped.
    return await channel.basic_publish(
        letter.body,
        routing_key=letter.queue.name,
        properties=letter.properties,
        mandatory=True,
        timeout=LONGEST_CALL,
    )
