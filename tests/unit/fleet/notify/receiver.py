"""A receiver of webhooks that fails, hangs or answers as it is told."""

import asyncio
import json

HANG = "hang"
BROKEN = "broken"


class Receiver:
    """Records requests; answers the next ones as `answers` says, then 200."""

    def __init__(self, *answers):
        self.answers, self.requests = list(answers), []
        self.url = ""

    async def __aenter__(self):
        self._server = await asyncio.start_server(self._handle, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._writers = set()
        return self

    async def __aexit__(self, *exc):
        self._server.close()
        for writer in self._writers:
            writer.close()

    @property
    def messages(self):
        return [json.loads(body) for _, body in self.requests]

    async def _handle(self, reader, writer):
        self._writers.add(writer)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {
            name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)
        }
        body = await reader.readexactly(int(headers.get("content-length", 0)))
        self.requests.append((headers, body))
        answer = self.answers.pop(0) if self.answers else 200
        if answer == HANG:
            return
        if answer != BROKEN:
            location = "location: http://127.0.0.1:1/\r\n" if answer == 302 else ""
            writer.write(
                f"HTTP/1.1 {answer} X\r\n{location}content-length: 0\r\nconnection: close\r\n\r\n".encode()
            )
            await writer.drain()
        writer.close()
