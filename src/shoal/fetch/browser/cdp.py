"""The Chrome DevTools Protocol over the pipes of a browser process: calls, replies, events."""

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

Event = dict[str, Any]
OnEvent = Callable[[str, Event, int], None]  # with the size of its message in bytes

MAX_MESSAGE = 256 << 20  # bytes of one message; no page within its limits comes near
_log = logging.getLogger(__name__)
_CALL = re.compile(rb'\{"id":(\d{1,15}),')


class CdpError(Exception):
    """The browser rejected a call, or has ended."""


class CdpMessage(msgspec.Struct, gc=False):
    """A message from the browser: the reply to a call, or an event."""

    id: int = 0
    method: str = ""
    params: Event = {}
    result: Event = {}
    error: Event | None = None
    sessionId: str = ""


_decoder = msgspec.json.Decoder(CdpMessage)
_encode = msgspec.json.Encoder().encode


class CdpConnection(asyncio.SubprocessProtocol):
    """The connection to one browser process. When it ends, pending and later calls fail."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._skipping = False  # the rest of a message that is too large
        self._pending: dict[int, tuple[str, asyncio.Future[Event]]] = {}  # with the session of each call
        self._handlers: dict[str, OnEvent] = {}
        self._count = 0
        self._process: asyncio.SubprocessTransport | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.exited: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._out = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        part = cast(bytes, data)
        if self._skipping:
            _, end, part = part.partition(b"\0")
            self._skipping = not end
        self._unread += part
        if b"\0" in part:
            *messages, rest = self._unread.split(b"\0")
            self._unread = rest
            for message in messages:
                self._on_message(_read(bytes(message)), len(message))
        elif len(self._unread) > MAX_MESSAGE:
            self._skip()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._end()

    def process_exited(self) -> None:
        self._end()
        self.exited.set_result(None)

    @property
    def is_open(self) -> bool:
        """Whether the browser is running."""
        return not self.ended.done()

    def listen(self, session: str, on_event: OnEvent) -> None:
        """Register a handler for the events of a session."""
        self._handlers[session] = on_event

    def forget(self, session: str) -> None:
        """Remove the handler of a session."""
        self._handlers.pop(session, None)

    def fail(self, session: str, reason: str) -> None:
        """Fail all pending calls of a session: one that has crashed sends no replies."""
        lost = [number for number, (owner, _) in self._pending.items() if owner == session]
        for number in lost:
            _, reply = self._pending.pop(number)
            if not reply.done():
                reply.set_exception(CdpError(reason))

    def call(self, method: str, session: str = "", /, **params: Any) -> asyncio.Future[Event]:
        """Send a call; the reply comes later, or CdpError. It need not be awaited."""
        reply: asyncio.Future[Event] = self._loop.create_future()
        reply.add_done_callback(retrieve_exception)
        if not self.is_open:
            reply.set_exception(CdpError("The browser has ended"))
            return reply
        self._count += 1
        self._pending[self._count] = session, reply
        message_out: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session:
            message_out["sessionId"] = session
        self._out.write(_encode(message_out) + b"\0")
        return reply

    def _skip(self) -> None:
        """Drop a message that is too large: the call that it replies to fails, and no other page does."""
        found = _CALL.match(self._unread)
        _, reply = self._pending.pop(int(found[1]) if found else 0, ("", None))
        if reply and not reply.done():
            reply.set_exception(CdpError(f"The result is larger than {MAX_MESSAGE:,} bytes"))
        self._unread, self._skipping = bytearray(), True

    def _on_message(self, message: CdpMessage, size: int) -> None:
        if not message.id:
            handler = self._handlers.get(message.sessionId)
            if handler:
                self._dispatch(handler, message, size)
            return
        _, reply = self._pending.pop(message.id, ("", None))
        if reply is None or reply.done():
            return
        if message.error:
            reply.set_exception(CdpError(str(message.error.get("message", ""))))
        else:
            reply.set_result(message.result)

    def _dispatch(self, handler: OnEvent, message: CdpMessage, size: int) -> None:
        try:
            handler(message.method, message.params, size)
        except Exception as error:
            # A session that misses an event may wait for ever. Others have messages behind this one.
            _log.exception("The event %s of the browser could not be handled", message.method)
            self.fail(message.sessionId, f"The event {message.method} could not be handled: {error!r}")

    def _end(self) -> None:
        if not self.is_open:
            return
        self.ended.set_result(None)
        for _, reply in self._pending.values():
            if not reply.done():
                reply.set_exception(CdpError("The browser has ended"))
        self._pending.clear()
        for handler in list(self._handlers.values()):
            handler("Inspector.detached", {"reason": "The browser has ended"}, 0)
        self._handlers.clear()


def _read(message: bytes) -> CdpMessage:
    try:
        return _decoder.decode(message)
    except msgspec.DecodeError:
        # A lone surrogate, which scripts may write and JSON may not contain.
        return msgspec.convert(json.loads(message), CdpMessage)


def retrieve_exception(done: "asyncio.Future[Any]") -> None:
    """Retrieve the exception of what nothing may have awaited, so that it is not logged."""
    if not done.cancelled():
        done.exception()
