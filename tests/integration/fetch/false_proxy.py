"""A proxy that sends given bytes, one reply for each message that it receives."""

import asyncio
from contextlib import suppress
from types import TracebackType
from typing import Self


class FalseProxy:
    """Replies to each message with the next of its lines, then closes the connection, or waits."""

    def __init__(self, *lines: bytes, waits: bool = False) -> None:
        self._lines, self._waits = lines, waits
        self.heard = b""
        self._serving: set[asyncio.Task[None]] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.create_task(self._serve(reader, writer))
        self._serving.add(task)
        task.add_done_callback(self._serving.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with suppress(OSError):
                for line in self._lines:
                    part = await reader.read(65_536)
                    self.heard += part
                    writer.write(line)
                    await writer.drain()
                if self._waits:
                    await asyncio.sleep(60)
        finally:
            writer.close()
