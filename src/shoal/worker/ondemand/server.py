"""The HTTP server of a listening worker: minimal and strict, for callers that have the secret."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from shoal.core.errors import InvalidSetting
from shoal.worker.ipc.calls import NONCE, SIGNATURE, BadSignature, Listening, Signer

REQUEST_TIMEOUT = 10.0  # seconds to receive a request, and to send its response
IDLE_TIMEOUT = 60.0  # seconds that an authenticated client may wait before its next request
MAX_HEAD_BYTES = 8_192
MAX_BODY_BYTES = 8 * 1024 * 1024
MAX_CONNECTIONS = 512
REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 503: "Service Unavailable"}


class HttpReply(NamedTuple):
    """A response."""

    status: int
    body: bytes = b""


Handler = Callable[[str, str, bytes], Awaitable[HttpReply]]


class _HttpRequest(NamedTuple):
    method: str
    path: str
    fields: dict[str, str]


class _BadRequest(Exception):
    """The request is malformed."""


class CallServer:
    """Accepts signed requests while it is open, and signs the responses."""

    def __init__(self, listening: Listening, signer: Signer, handler: Handler) -> None:
        self._listening, self._signer, self._handler = listening, signer, handler
        self._connections: set[asyncio.Task[None]] = set()
        self._busy = 0
        self._server: asyncio.Server | None = None

    @property
    def address(self) -> str:
        """The address for callers."""
        assert self._server is not None
        host, port = self._listening.host, self._server.sockets[0].getsockname()[1]
        return self._listening.announce.format(host=f"[{host}]" if ":" in host else host, port=port)

    async def __aenter__(self) -> Self:
        first = self._listening.port
        for port in range(first, first + max(1, self._listening.ports if first else 1)):
            try:
                self._server = await asyncio.start_server(
                    self._serve_connection, self._listening.host, port, limit=MAX_HEAD_BYTES
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
            async with asyncio.timeout(REQUEST_TIMEOUT):
                while self._busy:
                    await asyncio.sleep(0.01)
        for connection in self._connections:
            connection.cancel()

    async def _serve_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = asyncio.current_task()
        assert connection is not None
        self._connections.add(connection)
        try:
            if len(self._connections) <= MAX_CONNECTIONS:
                is_authenticated = await self._serve_one(reader, writer, REQUEST_TIMEOUT)
                while is_authenticated:
                    is_authenticated = await self._serve_one(reader, writer, IDLE_TIMEOUT)
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # a client that violates the protocol is disconnected without a response
        except asyncio.CancelledError:
            pass  # the server is closing
        finally:
            self._connections.discard(connection)
            writer.close()

    async def _serve_one(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, timeout: float
    ) -> bool:
        """Respond to the next request; return whether another one may follow."""
        async with asyncio.timeout(timeout):
            first = await reader.readexactly(1)
        self._busy += 1
        try:
            reply, nonce = await self._handle_request(first, reader)
            writer.write(self._encode_reply(reply, nonce))
            async with asyncio.timeout(REQUEST_TIMEOUT):
                await writer.drain()
        finally:
            self._busy -= 1
        return bool(nonce)

    async def _handle_request(self, first: bytes, reader: asyncio.StreamReader) -> tuple[HttpReply, str]:
        """Return the response, and the request's nonce; none if the request is not signed."""
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = _parse_head(first + await reader.readuntil(b"\r\n\r\n"))
                self._signer.verify_request(request.method, request.path, request.fields, time.time())
                body = await reader.readexactly(_content_length(request))
            self._signer.verify_body(request.fields, body)
        except BadSignature as error:
            return HttpReply(401, str(error).encode()), ""
        except _BadRequest as error:
            return HttpReply(400, str(error).encode()), ""
        return await self._handler(request.method, request.path, body), request.fields[NONCE]

    def _encode_reply(self, reply: HttpReply, nonce: str) -> bytes:
        fields = {"content-type": "application/json", "content-length": str(len(reply.body))}
        if nonce:
            fields[SIGNATURE] = self._signer.sign_response(nonce, reply.status, reply.body)
        else:
            fields["connection"] = "close"
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        return f"HTTP/1.1 {reply.status} {REASONS[reply.status]}\r\n{head}\r\n".encode() + reply.body


def _parse_head(head: bytes) -> _HttpRequest:
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or words[0] not in ("GET", "POST") or not words[1].startswith("/"):
        raise _BadRequest("Use GET or POST.")
    fields = {}
    for line in filter(None, lines[1:]):
        name, _, value = line.partition(":")
        if name.lower() in fields:
            raise _BadRequest("Duplicate header field.")
        fields[name.lower()] = value.strip()
    if "transfer-encoding" in fields:
        raise _BadRequest("Send the body with Content-Length.")
    return _HttpRequest(words[0], words[1], fields)


def _content_length(request: _HttpRequest) -> int:
    text = request.fields.get("content-length", "0")
    if not (text.isascii() and text.isdecimal() and len(text) < 10) or int(text) > MAX_BODY_BYTES:
        raise _BadRequest(f"The maximum body size is {MAX_BODY_BYTES:,} bytes.")
    return int(text)
