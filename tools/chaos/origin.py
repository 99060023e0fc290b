"""The hosts of the site in one process, which write down who was asked for what and when.

A host is an address of loopback. Usage: python -m tools.chaos.origin PAGES HOSTS RETRY_AFTER. It prints its
port; then it answers each line on stdin: `count` with the pages served so far, `log` with all visits.
"""

import asyncio
import json
import os
import sys
import time
from contextlib import suppress
from ipaddress import IPv4Address
from typing import cast

import uvloop

from tools.chaos.site import Site, Trouble

FIRST = int(IPv4Address("127.2.0.1"))
QUICK, SLOW = 0.02, 1.2  # seconds until an answer
PHRASES = {200: "OK", 404: "Not Found", 429: "Too Many Requests", 500: "Internal Server Error"}

Row = list[float]  # host, page, at, until, status: the fields of a Visit


def address(host: int) -> str:
    """Return the address of a host."""
    return str(IPv4Address(FIRST + host))


class Book:
    """What was asked and answered, on all hosts."""

    def __init__(self, site: Site, retry_after: float) -> None:
        self.site, self.retry_after, self.port = site, retry_after, 0
        self.rows: list[Row] = []
        self.served: set[int] = set()
        self._troubled: set[int] = set()

    def ask(self, host: int, page: int) -> Row:
        """Write a request down."""
        row: Row = [host, page, time.monotonic(), 0.0, 0]
        self.rows.append(row)
        return row

    def status(self, page: int) -> int:
        """Return what the answer says, and remember that a passing trouble has passed."""
        trouble = self.site.trouble(page) if page < self.site.pages else Trouble.GONE
        if trouble is Trouble.GONE:
            return 404
        first = page not in self._troubled
        self._troubled.add(page)
        if first and trouble in (Trouble.BROKEN, Trouble.BUSY):
            return 500 if trouble is Trouble.BROKEN else 429
        return 200

    def answer(self, row: Row) -> bytes:
        """Write an answer down, and return it."""
        page, now = int(row[1]), time.monotonic()
        row[3], row[4] = now, self.status(page)
        if row[4] == 200:
            self.served.add(page)
        return self._encoded(int(row[4]), page)

    def _encoded(self, status: int, page: int) -> bytes:
        leads = self.site.links(page) if status == 200 else ()
        links = " ".join(f"<a href='{self.url(to)}'>{to}</a>" for to in leads)
        body = f"<title>Page {page}</title>{links}".encode()
        wait = f"Retry-After: {self.retry_after:g}\r\n" if status == 429 else ""
        head = f"HTTP/1.1 {status} {PHRASES[status]}\r\nContent-Type: text/html\r\n{wait}"
        return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def url(self, page: int) -> str:
        """Return the address of a page."""
        return f"http://{address(self.site.host(page))}:{self.port}/page/{page}"


class Host(asyncio.Protocol):
    """Answers on one connection."""

    def __init__(self, book: Book) -> None:
        self._book, self._unread = book, b""
        self._open: list[Row] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        here, there = (IPv4Address(transport.get_extra_info(end)[0]) for end in ("sockname", "peername"))
        self._number = int(here) - FIRST
        if not there.is_loopback:
            self._transport.abort()

    def data_received(self, data: bytes) -> None:
        *whole, self._unread = (self._unread + data).split(b"\r\n\r\n")
        for head in whole:
            page = int(head.split(b" ", 2)[1].rpartition(b"/")[2])
            row = self._book.ask(self._number, page)
            self._open.append(row)
            is_slow = self._book.site.trouble(page) is Trouble.SLOW
            asyncio.get_running_loop().call_later(SLOW if is_slow else QUICK, self._answer, row)

    def connection_lost(self, error: Exception | None) -> None:
        for row in self._open:
            row[3] = time.monotonic()
        self._open.clear()

    def _answer(self, row: Row) -> None:
        if row in self._open:
            self._open.remove(row)
            self._transport.write(self._book.answer(row))


def _watch_closely() -> None:
    """Have this process woken at once: it is the clock, and would else read late on a busy machine."""
    with suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))


async def serve(book: Book) -> None:
    """Serve until nobody wants to know any more."""
    _watch_closely()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Host(book), "0.0.0.0", 0, backlog=1_024)
    book.port = server.sockets[0].getsockname()[1]
    print(book.port, flush=True)
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        said = len(book.served) if line == "count\n" else book.rows
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    pages, hosts, wait = sys.argv[1:]
    uvloop.run(serve(Book(Site(int(pages), int(hosts)), float(wait))))
