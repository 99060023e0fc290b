"""Chromium's own protocol, spoken over the pipes of its process: calls, answers, events."""

import asyncio
import json
import logging
import re
from collections.abc import Callable
from typing import Any, cast

import msgspec

Event = dict[str, Any]
OnEvent = Callable[[str, Event, int], None]  # with the bytes that it took on the wire

MOST_UNREAD = 256 << 20  # bytes of one message; no page that is within its limits comes near
_log = logging.getLogger(__name__)
_CALL = re.compile(rb'\{"id":(\d{1,15}),')


class WireFailed(Exception):
    """The browser refused a call, or is gone."""


class Message(msgspec.Struct, gc=False):
    """What the browser says: the answer to a call, or an event."""

    id: int = 0
    method: str = ""
    params: Event = {}
    result: Event = {}
    error: Event | None = None
    sessionId: str = ""


_decoder = msgspec.json.Decoder(Message)
_written = msgspec.json.Encoder().encode


class Wire(asyncio.SubprocessProtocol):
    """The line to one browser process. What it is asked after the end fails, and so does all that waits."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._unread = bytearray()
        self._is_skipping = False  # the rest of a message that is too large
        self._waiting: dict[int, tuple[str, asyncio.Future[Event]]] = {}  # and of which session
        self._hearing: dict[str, OnEvent] = {}
        self._count = 0
        self._process: asyncio.SubprocessTransport | None = None
        self.ended: asyncio.Future[None] = self._loop.create_future()
        self.exited: asyncio.Future[None] = self._loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self._out = cast(asyncio.WriteTransport, self._process.get_pipe_transport(0))

    def pipe_data_received(self, fd: int, data: bytes | str) -> None:
        part = cast(bytes, data)
        if self._is_skipping:
            _, end, part = part.partition(b"\0")
            self._is_skipping = not end
        self._unread += part
        if b"\0" in part:
            *messages, rest = self._unread.split(b"\0")
            self._unread = rest
            for message in messages:
                self._hear(_read(bytes(message)), len(message))
        elif len(self._unread) > MOST_UNREAD:
            self._skip()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        self._end()

    def process_exited(self) -> None:
        self._end()
        self.exited.set_result(None)

    @property
    def is_open(self) -> bool:
        """Whether the browser is there."""
        return not self.ended.done()

    def listen(self, session: str, on_event: OnEvent) -> None:
        """Hand the events of a session to somebody."""
        self._hearing[session] = on_event

    def forget(self, session: str) -> None:
        """Let the events of a session go unheard."""
        self._hearing.pop(session, None)

    def lose(self, session: str, reason: str) -> None:
        """Fail all that a session was asked for: one that has crashed answers nothing."""
        lost = [number for number, (whose, _) in self._waiting.items() if whose == session]
        for number in lost:
            _, answer = self._waiting.pop(number)
            if not answer.done():
                answer.set_exception(WireFailed(reason))

    def call(self, method: str, session: str = "", /, **params: Any) -> asyncio.Future[Event]:
        """Ask for something; the answer comes later, or WireFailed. Nobody need wait for it."""
        answer: asyncio.Future[Event] = self._loop.create_future()
        answer.add_done_callback(_seen)
        if not self.is_open:
            answer.set_exception(WireFailed("The browser has ended"))
            return answer
        self._count += 1
        self._waiting[self._count] = session, answer
        asked: dict[str, Any] = {"id": self._count, "method": method, "params": params}
        if session:
            asked["sessionId"] = session
        self._out.write(_written(asked) + b"\0")
        return answer

    def _skip(self) -> None:
        """Drop a message that is too large: the call that it answers fails, and no other page does."""
        found = _CALL.match(self._unread)
        _, answer = self._waiting.pop(int(found[1]) if found else 0, ("", None))
        if answer and not answer.done():
            answer.set_exception(WireFailed(f"The result is larger than {MOST_UNREAD:,} bytes"))
        self._unread, self._is_skipping = bytearray(), True

    def _hear(self, message: Message, size: int) -> None:
        if not message.id:
            hearing = self._hearing.get(message.sessionId)
            if hearing:
                self._tell(hearing, message, size)
            return
        _, answer = self._waiting.pop(message.id, ("", None))
        if answer is None or answer.done():
            return
        if message.error:
            answer.set_exception(WireFailed(str(message.error.get("message", ""))))
        else:
            answer.set_result(message.result)

    def _tell(self, hearing: OnEvent, message: Message, size: int) -> None:
        try:
            hearing(message.method, message.params, size)
        except Exception as error:
            # A session that misses an event may wait for ever. Others have messages behind this one.
            _log.exception("The event %s of the browser could not be handled", message.method)
            self.lose(message.sessionId, f"The event {message.method} could not be handled: {error!r}")

    def _end(self) -> None:
        if not self.is_open:
            return
        self.ended.set_result(None)
        for _, answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(WireFailed("The browser has ended"))
        self._waiting.clear()
        for hearing in list(self._hearing.values()):
            hearing("Inspector.detached", {"reason": "The browser has ended"}, 0)
        self._hearing.clear()


def _read(message: bytes) -> Message:
    try:
        return _decoder.decode(message)
    except msgspec.DecodeError:
        # Half an emoji, which scripts may write and JSON may not hold.
        return msgspec.convert(json.loads(message), Message)


def _seen(answer: "asyncio.Future[Event]") -> None:
    if not answer.cancelled():
        answer.exception()  # looked at, though nobody may have waited
