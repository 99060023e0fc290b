"""The door of a listening worker: strict, small HTTP for those who have the secret."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from shoal.core.errors import InvalidSetting
from shoal.worker.calls import NONCE, SEAL, Listening, Seal, Unsealed

PATIENCE = 10.0  # seconds for a question to come in whole, and for its answer to be taken
IDLE = 60.0  # seconds that a guest who has shown the secret may wait with the next question
LONGEST_HEAD = 8_192
LONGEST_BODY = 8 * 1024 * 1024
MOST_GUESTS = 512
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}


class Reply(NamedTuple):
    """What is answered."""

    status: int
    body: bytes = b""


Attend = Callable[[str, str, bytes], Awaitable[Reply]]


class _Question(NamedTuple):
    method: str
    path: str
    fields: dict[str, str]


class _Rude(Exception):
    """This is not a question that can be answered."""


class Door:
    """Lets in sealed questions for as long as it is open, and seals the answers."""

    def __init__(self, listening: Listening, seal: Seal, attend: Attend) -> None:
        self._listening, self._seal, self._attend = listening, seal, attend
        self._guests: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """Where callers reach it."""
        assert self._server is not None
        host, port = self._listening.host, self._server.sockets[0].getsockname()[1]
        return self._listening.announce.format(host=f"[{host}]" if ":" in host else host, port=port)

    async def __aenter__(self) -> Self:
        first = self._listening.port
        for port in range(first, first + max(1, self._listening.ports if first else 1)):
            try:
                self._server = await asyncio.start_server(
                    self._welcome, self._listening.host, port, limit=LONGEST_HEAD
                )
                return self
            except OSError as error:
                problem = error
        where = f"{self._listening.host}:{first}"
        raise InvalidSetting("--at", f"cannot be used: {where}: {problem.strerror}. Name another port")

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        self._server.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(PATIENCE):
                while self._busy:
                    await asyncio.sleep(0.01)
        for guest in self._guests:
            guest.cancel()

    async def _welcome(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        guest = asyncio.current_task()
        assert guest is not None
        self._guests.add(guest)
        try:
            if len(self._guests) <= MOST_GUESTS:
                is_known = await self._serve_one(reader, writer, PATIENCE)
                while is_known:
                    is_known = await self._serve_one(reader, writer, IDLE)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a guest with bad manners is shown out without a word
        except asyncio.CancelledError:
            pass  # the door is being closed
        finally:
            self._guests.discard(guest)
            writer.close()

    async def _serve_one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, patience: float
    ) -> bool:
        """Answer the next question; return whether another one may follow."""
        async with asyncio.timeout(patience):
            first = await reader.readexactly(1)
        self._busy += 1
        try:
            reply, nonce = await self._reply(first, reader)
            writer.write(self._written(reply, nonce))
            async with asyncio.timeout(PATIENCE):
                await writer.drain()
        finally:
            self._busy -= 1
        return bool(nonce)

    async def _reply(self, first: bytes, reader: asyncio.StreamReader) -> tuple[Reply, str]:
        """Return the answer, and the nonce of the question; of one that is not sealed, none."""
        try:
            async with asyncio.timeout(PATIENCE):
                question = _parsed(first + await reader.readuntil(b"\r\n\r\n"))
                self._seal.admit(question.method, question.path, question.fields, time.time())
                body = await reader.readexactly(_length(question))
            self._seal.check_body(question.fields, body)
        except Unsealed as error:
            return Reply(401, str(error).encode()), ""
        except _Rude as error:
            return Reply(400, str(error).encode()), ""
        return await self._attend(question.method, question.path, body), question.fields[NONCE]

    def _written(self, reply: Reply, nonce: str) -> bytes:
        fields = {"content-type": "application/json", "content-length": str(len(reply.body))}
        if nonce:
            fields[SEAL] = self._seal.answer(nonce, reply.status, reply.body)
        else:
            fields["connection"] = "close"
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {reply.status} {REASONS[reply.status]}\r\n{head}\r\n".encode() + reply.body


def _parsed(head: bytes) -> _Question:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or words[0] not in ("GET", "POST") or not words[1].startswith("/"):
        raise _Rude("Ask with GET or POST.")
    fields = {}
    for line in filter(None, lines[1:]):
        name, _, value = line.partition(":")
        if name.lower() in fields:
            raise _Rude("A field came twice.")
        fields[name.lower()] = value.strip()
    if "transfer-encoding" in fields:
        raise _Rude("Send the body whole, with its length.")
    return _Question(words[0], words[1], fields)


def _length(question: _Question) -> int:
    text = question.fields.get("content-length", "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) > LONGEST_BODY:
        raise _Rude(f"A body may have {LONGEST_BODY:,} bytes.")
    return int(text)
