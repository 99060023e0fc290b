"""Thousands of hosts in one process, which write down when each was asked.

A host is an address of loopback: the first is 127.1.0.0. Usage: python -m tools.bench.hardship.origin SLOW
[stamped]. SLOW is the number of hosts, the first ones, whose bodies drip a byte a second. Prints the port,
serves until stdin ends, then prints for each request the number of its host, its path and its moment: when
this process has read it, or with `stamped` when the kernel has received it. If this process has to wait for a
processor, it reads up to 15 ms later.
"""

import asyncio
import json
import os
import resource
import socket
import struct
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
SO_TIMESTAMPNS = 35  # of Linux: each read tells when the data was received
STAMP = struct.Struct("@ll")  # seconds and nanoseconds since 1970

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
        self._answer(data, time.monotonic())

    def _answer(self, data: bytes, now: float) -> None:
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


class StampedHost(Host):
    """Answers on one connection, and takes the kernel's word for when it was asked."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._transport.pause_reading()
        # A second descriptor: the loop keeps the first for itself.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._socket.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        asyncio.get_running_loop().add_reader(self._socket, self._read)

    def _read(self) -> None:
        try:
            data, stamps, _, _ = self._socket.recvmsg(65_536, 256)
        except BlockingIOError:
            return
        except OSError:
            data, stamps = b"", []
        if not data:
            asyncio.get_running_loop().remove_reader(self._socket)
            self._socket.close()
            self._transport.close()
            return
        moment = time.monotonic()
        for _, kind, stamp in stamps:
            if kind == SO_TIMESTAMPNS:
                seconds, nanoseconds = STAMP.unpack(stamp[: STAMP.size])
                moment -= time.time() - seconds - nanoseconds / 1e9
        self._answer(data, moment)


def _watch_closely() -> None:
    """Have this process woken at once: it is the clock, and would else read late on a busy machine."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


async def serve(slow: int, *, stamped: bool) -> None:
    """Serve until nobody wants to know any more."""
    _watch_closely()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    loop, asked = asyncio.get_running_loop(), cast(Asked, [])
    kind = StampedHost if stamped else Host
    listening = socket.create_server(("0.0.0.0", 0))
    if stamped:  # before the first request can arrive; connections inherit it
        listening.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    server = await loop.create_server(lambda: kind(asked, slow), sock=listening, backlog=4_096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    print(json.dumps(asked), flush=True)


if __name__ == "__main__":
    uvloop.run(serve(int(sys.argv[1]), stamped="stamped" in sys.argv))
