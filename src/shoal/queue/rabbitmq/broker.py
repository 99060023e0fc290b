"""The connections to RabbitMQ, and the retries when one is lost."""

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
import msgspec
from aiormq import exceptions
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

from shoal.core.errors import HandshakeFailed, QueueError, QueueFull, QueueRefused
from shoal.core.tasks import watched
from shoal.queue.address import check_files
from shoal.queue.outages import CancellationCheck, Outage, RetryUntil, handshake_problem, is_closed
from shoal.queue.rabbitmq.address import FILE_OPTIONS
from shoal.queue.rabbitmq.names import QueueName

CALL_TIMEOUT_SECONDS = 10.0  # after that the connection is given up, and the call repeated
CLOSE_TIMEOUT = timedelta(seconds=1)
PERSISTENT = 2

REFUSED = (
    exceptions.AuthenticationError,
    exceptions.ProbableAuthenticationError,
    exceptions.ConnectionNotAllowed,
    exceptions.ChannelAccessRefused,
)
PERMANENT = (
    *REFUSED,
    exceptions.IncompatibleProtocolError,
    exceptions.ConnectionNotImplemented,
    exceptions.ChannelPreconditionFailed,
)
ERRORS = (exceptions.AMQPError, exceptions.ChannelInvalidStateError, OSError, TimeoutError)

Result = TypeVar("Result")
# The driver logs each lost connection with a traceback, and `Outage` reports them: once for a server.
logging.getLogger("aiormq").propagate = False
logging.getLogger("aiormq").addHandler(logging.NullHandler())


class BrokerMessage(msgspec.Struct, frozen=True):
    """A message to publish."""

    queue: QueueName
    body: bytes
    properties: Basic.Properties


@dataclass(frozen=True, slots=True)
class Delivery:
    """A fetched message, which must be acknowledged or requeued on the channel that delivered it."""

    body: bytes
    tag: int
    channel: AbstractChannel


class _QueueMissing(Exception):
    """A queue that existed is gone."""


CHANNEL_ERRORS = (_QueueMissing, ChannelInvalidStateError, AMQPChannelError, DeliveryError)


class BrokerConnection:
    """One connection with one channel, opened when needed; after an error it tries the next node."""

    def __init__(self, urls: Sequence[str], first: int) -> None:
        self._urls, self._node = urls, first
        self._connection: AbstractConnection | None = None
        self._channel: AbstractChannel | None = None
        self._opening = asyncio.Lock()
        self.resets = 0
        self.closed = self.was_open = False

    async def channel(self) -> AbstractChannel:
        """Return the open channel."""
        async with self._opening:
            if self.closed:
                raise QueueError("This queue is closed. Open it again with: open_queue(url)")
            if self._connection is None or self._connection.is_closed:
                self._channel = None
                async with asyncio.timeout(CALL_TIMEOUT_SECONDS):
                    self._connection = await _connect(self._urls[self._node % len(self._urls)])
            if self._channel is None or self._channel.is_closed:
                self._channel = await self._connection.channel(timeout=CALL_TIMEOUT_SECONDS)
            self.was_open = True
            return self._channel

    async def is_blocked(self) -> bool:
        """Return whether the broker has blocked this connection."""
        if self._connection is None:
            return False
        try:
            async with asyncio.timeout(0.01):
                await self._connection.ready()
        except TimeoutError:
            return True
        return False

    async def reset(self, error: BaseException, resets: int) -> bool:
        """Discard what an error may have broken: the driver does not always report that it is broken.

        `resets` is the count before the call that failed; returns False if another caller has reset it since.
        """
        if resets != self.resets:
            return False
        self.resets += 1
        self._channel = None
        if not isinstance(error, CHANNEL_ERRORS):
            self._node += 1
            await self.disconnect()
        return True

    async def disconnect(self) -> None:
        """Close the connection if there is one; the next call opens a new one."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(*ERRORS):
                async with asyncio.timeout(CLOSE_TIMEOUT.total_seconds()):
                    await connection.close()


class Broker:
    """Two connections; a call whose connection is lost is repeated.

    A broker that is short of memory or disk stops reading from connections that publish. Fetches and
    acknowledgements, which end the shortage, use a connection of their own.
    """

    def __init__(self, urls: Sequence[str], shown: str, *, patience: timedelta) -> None:
        self.address = shown
        check_files(urls[0], FILE_OPTIONS)
        self._patience, self._outage = patience, Outage(self.address)
        first = random.randrange(len(urls))  # spreads a fleet over the nodes of a cluster
        self._out, self._in = BrokerConnection(urls, first), BrokerConnection(urls, first)
        self._declared: set[str] = set()
        self._requeueing: set[asyncio.Future[Any]] = set()

    async def open(self) -> None:
        """Connect to the broker; raises QueueUnavailable or QueueRefused."""
        await self._retry(self._out, self._out.channel)

    async def close(self) -> None:
        """Close the connections."""
        self._out.closed = self._in.closed = True
        await asyncio.gather(self._out.disconnect(), self._in.disconnect())

    async def publish(self, messages: Sequence[BrokerMessage], *, wait: bool = True) -> None:
        """Publish messages, and return once the broker has confirmed them all on disk.

        Raises QueueFull when the broker accepts no messages; without `wait` at once if the connection is
        blocked.
        """
        if not wait and await self._out.is_blocked():
            raise self._full()
        await self._retry(self._out, lambda: self._publish(messages))

    async def fetch(self, queue: QueueName) -> Delivery | None:
        """Fetch the first message of a queue, None if it is empty."""
        fetched: Delivery | None = None

        async def attempt() -> Delivery | None:
            nonlocal fetched
            fetched = await self._fetch(queue)
            return fetched

        try:
            return await self._retry(self._in, attempt)
        except asyncio.CancelledError:
            if fetched:  # just when the call was cancelled
                self._requeue_soon(fetched)
            raise

    async def acknowledge(self, delivery: Delivery) -> None:
        """Acknowledge a message. If that fails it is delivered again, and recognised then."""
        with suppress(*ERRORS):
            await delivery.channel.basic_ack(delivery.tag, wait=False)

    async def requeue(self, delivery: Delivery) -> None:
        """Return a message to its queue."""
        with suppress(*ERRORS):
            await delivery.channel.basic_nack(delivery.tag, requeue=True, wait=False)

    async def delete(self, queues: Iterable[QueueName]) -> None:
        """Delete queues with their messages."""
        for queue in queues:
            await self._retry(self._in, partial(self._delete, queue.name))

    async def _publish(self, messages: Sequence[BrokerMessage]) -> None:
        channel = await self._out.channel()
        for queue in {message.queue for message in messages}:
            await self._declare(channel, queue)
        sending = [asyncio.ensure_future(_send(channel, message)) for message in messages]
        try:
            await asyncio.gather(*sending)
        except PublishError as error:
            raise _QueueMissing(reason_of(error)) from error
        except TimeoutError as error:
            if await self._out.is_blocked():
                raise self._full() from error
            raise TimeoutError(f"the queue {messages[0].queue.name!r} does not respond") from error
        finally:
            for one in sending:
                one.cancel()
            await asyncio.gather(*sending, return_exceptions=True)

    async def _fetch(self, queue: QueueName) -> Delivery | None:
        fetching = asyncio.ensure_future(self._fetch_whole(queue))
        try:
            return await asyncio.shield(fetching)
        except asyncio.CancelledError:
            # Cancelling half a request would close the channel for all its users. And the message may be on
            # its way: the broker would consider one that no caller takes as delivered for ever.
            self._requeueing.add(fetching)
            fetching.add_done_callback(self._requeue_unclaimed)
            raise

    async def _fetch_whole(self, queue: QueueName) -> Delivery | None:
        channel = await self._in.channel()
        await self._declare(channel, queue)
        try:
            message = await channel.basic_get(queue.name, timeout=CALL_TIMEOUT_SECONDS)
        except ChannelNotFoundEntity as error:
            raise _QueueMissing(reason_of(error)) from error
        except TimeoutError as error:
            raise TimeoutError(f"the queue {queue.name!r} does not respond") from error
        tag = getattr(message.delivery, "delivery_tag", None)  # the reply of an empty queue has none
        return None if tag is None else Delivery(message.body, tag, channel)

    def _requeue_unclaimed(self, fetching: "asyncio.Future[Delivery | None]") -> None:
        self._requeueing.discard(fetching)
        if not fetching.cancelled() and not fetching.exception() and (delivery := fetching.result()):
            self._requeue_soon(delivery)

    def _requeue_soon(self, delivery: Delivery) -> None:
        """Requeue a message that arrived after its caller was cancelled."""
        requeueing = watched(asyncio.ensure_future(self.requeue(delivery)))
        self._requeueing.add(requeueing)
        requeueing.add_done_callback(self._requeueing.discard)

    async def _delete(self, name: str) -> None:
        channel = await self._in.channel()
        await channel.queue_delete(name, timeout=CALL_TIMEOUT_SECONDS)
        self._declared.discard(name)

    async def _declare(self, channel: AbstractChannel, queue: QueueName) -> None:
        if queue.name in self._declared:
            return
        if "x-dead-letter-routing-key" in queue.arguments:
            await self._declare(channel, queue.dead_letter_target)
        try:
            await channel.queue_declare(
                queue.name, durable=True, arguments=queue.arguments, timeout=CALL_TIMEOUT_SECONDS
            )
        except ChannelPreconditionFailed as error:
            raise translate_error(self.address, error, queue.name) from error
        self._declared.add(queue.name)

    def _full(self) -> QueueFull:
        return QueueFull(self.address, "RabbitMQ is short of memory or disk and accepts no messages")

    def _explain(self, connection: BrokerConnection, error: BaseException) -> str:
        reason = reason_of(error)
        if connection.was_open or not self.address.startswith("amqps:") or "reset" not in reason:
            return reason
        # The alert that says so may be lost with the connection.
        return f"{reason}; it may require a client certificate: &certfile=FILE&keyfile=FILE"

    async def _retry(self, connection: BrokerConnection, attempt: Callable[[], Awaitable[Result]]) -> Result:
        """Repeat a call until it succeeds or the time for retries is over."""
        retry, cancellation = RetryUntil(self._outage, self._patience), CancellationCheck()
        while True:
            resets = connection.resets
            try:
                result = await _separate_cancellation(attempt)
                cancellation.check()
                self._outage.end()
                return result
            except (*ERRORS, _QueueMissing) as error:
                cancellation.check()
                # A broker that accepted us before may be starting, with its virtual hosts not there yet.
                if not is_temporary(error) or (is_virtual_host_refused(error) and not connection.was_open):
                    raise translate_error(self.address, error) from error
                if not connection.was_open and (problem := handshake_problem(error)):
                    raise HandshakeFailed(self.address, problem) from error
                if await connection.reset(error, resets):
                    self._declared.clear()
                await retry.again(self._explain(connection, error), error)


async def _separate_cancellation(attempt: Callable[[], Awaitable[Result]]) -> Result:
    """Raise ConnectionResetError where the driver cancelled: it does so when a connection breaks."""
    try:
        return await attempt()
    except StopAsyncIteration as error:
        # Raised by the driver if the broker closes a connection that it has just accepted.
        raise ConnectionResetError("the broker closed the connection") from error
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise ConnectionResetError("the connection was lost") from error
    except RuntimeError as error:
        if not is_closed(error):
            raise
        raise ConnectionResetError("the connection was reset") from error


async def _connect(url: str) -> AbstractConnection:
    return await aiormq.connect(url)


async def _send(channel: AbstractChannel, message: BrokerMessage) -> Any:
    # Mandatory: a message without a queue is returned as an error instead of being dropped.
    return await channel.basic_publish(
        message.body,
        routing_key=message.queue.name,
        properties=message.properties,
        mandatory=True,
        timeout=CALL_TIMEOUT_SECONDS,
    )


def is_virtual_host_refused(error: BaseException) -> bool:
    """Return whether the broker closed the connection as soon as it got the name of the virtual host."""
    return isinstance(error, exceptions.InvalidFrameError) and "Connection.Close" in str(error)


def is_temporary(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    return not isinstance(error, PERMANENT)


def translate_error(address: str, error: BaseException, queue: str = "") -> QueueError:
    """Return the error to raise to the caller."""
    if isinstance(error, REFUSED):
        return QueueRefused(address, reason_of(error))
    if is_virtual_host_refused(error):
        return QueueRefused(address, "the virtual host does not exist, or this user may not use it")
    if isinstance(error, exceptions.ChannelPreconditionFailed) and queue:
        return QueueError(
            f"The broker at {address} has a queue {queue!r} with other arguments than Shoal declares: "
            f"{reason_of(error)}. Move its messages elsewhere and delete it: rabbitmqctl delete_queue {queue}"
        )
    return QueueError(f"The broker at {address} failed: {reason_of(error)}")


def reason_of(error: BaseException) -> str:
    """Return an error's text in one line, without a full stop: the message continues after it."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
