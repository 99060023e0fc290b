"""Thousands of hosts in one process, which write down when each was asked.

A host is an address of loopback: the first is 127.1.0.0. Usage: python -m tools.bench.hardship.origin SLOW,
the number of hosts, the first ones, whose bodies drip a byte a second. Prints the port, serves until stdin
ends, then prints for each request the number of its host, its path and its moment.
"""

import asyncio
import json
import os
import resource
import sys
import time
from contextlib import suppress
from ipaddress import IPv4Address
from typing import cast

import uvloop

FIRST = int(IPv4Address("127.1.0.0"))
BODY = b"<title>A page</title>".ljust(2_000)
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n" % len(BODY)
DRIP = 1.0  # seconds

Asked = list[tuple[int, str, float]]


def address(host: int) -> str:
    """Return the address of a host."""
    return str(IPv4Address(FIRST + host))


class Host(asyncio.Protocol):
    """Answers on one connection."""

    def __init__(self, asked: Asked, slow: int) -> None:
        self._asked, self._slow = asked, slow
        self._unread = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        here, there = (IPv4Address(transport.get_extra_info(end)[0]) for end in ("sockname", "peername"))
        self._number = int(here) - FIRST
        if not there.is_loopback:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        now = time.monotonic()
        *whole, self._unread = (self._unread + data).split(b"\r\n\r\n")
        for head in whole:
            self._asked.append((self._number, head.split(b" ", 2)[1].decode(), now))
            self._transport.write(HEAD)
            if self._number < self._slow:
                self._drip()
            else:
                self._transport.write(BODY)

    def _drip(self) -> None:
        if not self._transport.is_closing():
            self._transport.write(b" ")
            asyncio.get_running_loop().call_later(DRIP, self._drip)


def _watch_closely() -> None:
    """Have this process woken at once: it is the clock, and would else read late on a busy machine."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


async def serve(slow: int) -> None:
    """Serve until nobody wants to know any more."""
    _watch_closely()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop, asked = asyncio.get_running_loop(), cast(Asked, [])
    server = await loop.create_server(lambda: Host(asked, slow), "0.0.0.0", 0, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps(asked), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1])))
