"""An HTTP/2 server of a few frames, which breaks its responses as a test wants."""

import asyncio
import ssl
import struct
from collections.abc import Sequence
from contextlib import suppress
from typing import Self, cast

DATA, HEADERS, RST_STREAM, SETTINGS, GOAWAY = 0, 1, 3, 4, 7
END_STREAM, END_HEADERS = 1, 4
NO_ERROR, INTERNAL_ERROR, REFUSED_STREAM, CANCEL = 0, 2, 7, 8
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STATUS_200, STATUS_304 = b"\x88", b"\x8b"  # of the static table
CLOSE = b""  # in place of a frame

Frame = tuple[int, int, bytes]  # type, flags, payload


def content_length(size: int) -> bytes:
    """Return the header in HPACK: a literal with the name of index 28."""
    digits = str(size).encode()
    return b"\x0f\x0d" + bytes([len(digits)]) + digits


GZIP = b"\x0f\x0b\x04gzip"  # content-encoding, likewise


class Http2Origin:
    """Sends the same frames for every request."""

    def __init__(self, context: ssl.SSLContext, frames: Sequence[Frame | bytes]) -> None:
        context.set_alpn_protocols(["h2"])
        self._context, self._frames = context, frames
        self.requests = 0
        self._open: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.url = f"https://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._open:
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open.append(cast("asyncio.Task[None]", asyncio.current_task()))
        with suppress(ConnectionError, asyncio.IncompleteReadError, ssl.SSLError, asyncio.CancelledError):
            await self._talk(reader, writer)
        writer.close()
        with suppress(ConnectionError, ssl.SSLError, TimeoutError):
            await asyncio.wait_for(writer.wait_closed(), 5)

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readexactly(len(PREFACE))
        writer.write(_encode((SETTINGS, 0, b""), 0))
        while True:
            head = await reader.readexactly(9)
            kind, stream = head[3], struct.unpack(">I", head[5:])[0]
            await reader.readexactly(int.from_bytes(head[:3]))
            if kind == HEADERS:
                self.requests += 1
                for frame in self._frames:
                    if isinstance(frame, bytes):
                        return
                    writer.write(_encode(frame, 0 if frame[0] == GOAWAY else stream))
                    await writer.drain()


def _encode(frame: Frame, stream: int) -> bytes:
    kind, flags, payload = frame
    return len(payload).to_bytes(3) + bytes([kind, flags]) + struct.pack(">I", stream) + payload
