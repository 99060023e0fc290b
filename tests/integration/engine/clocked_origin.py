"""Many hosts in a process of their own, which write down when each was asked.

Usage: python clocked_origin.py HOSTS. Prints the ports, serves until stdin ends, then prints the moments.
"""

import asyncio
import json
import sys
import time
from collections import defaultdict

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 20\r\n\r\n<title>x</title>    "


class Clocked(asyncio.Protocol):
    """Answers every request at once, and notes when it came."""

    def __init__(self, moments: list[float]) -> None:
        self._moments = moments

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport, self._seen = transport, b""

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        *whole, self._seen = (self._seen + data).split(b"\r\n\r\n")
        for _ in whole:
            self._moments.append(now)
            self._transport.write(ANSWER)


async def main(hosts: int) -> None:
    loop = asyncio.get_running_loop()
    moments: dict[int, list[float]] = defaultdict(list)
    for _ in range(hosts):
        mine: list[float] = []
        server = await loop.create_server(lambda mine=mine: Clocked(mine), "127.0.0.1", 0)
        moments[server.sockets[0].getsockname()[1]] = mine
    print(json.dumps(list(moments)), flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps(moments), flush=True)


if __name__ == "__main__":
    asyncio.run(main(int(sys.argv[1])))
