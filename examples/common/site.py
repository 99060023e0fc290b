"""The site of an example: request handlers on ports of 127.0.0.1, in a process of its own."""

import argparse
import asyncio
import json
import queue
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, Self

from examples.common.gate import Gate
from examples.common.patience import PATIENCE, Failure
from shoal.demo.http import ADDRESS, HttpServer, ShopRequest
from shoal.demo.responses import TEXT, ShopResponse

ROOT = Path(__file__).parents[2]

Handler = Callable[[ShopRequest], ShopResponse]


class Ports:
    """Opens ports while a site is served; `names` maps the usual address of each to the real one."""

    def __init__(self, *, are_free: bool) -> None:
        self._are_free = are_free
        self._sockets: list[socket.socket] = []
        self._servers: list[HttpServer] = []
        self.names: dict[str, str] = {}
        self.gate = Gate()

    async def serve(
        self, handle: Handler, port: int, *, home: str = "", robots: str = "", is_gated: bool = True
    ) -> Counter[int]:
        """Serve a handler and return its responses by status, which are counted as they are sent.

        An address of a port in `robots` may be the usual one, and is replaced by the real one.
        """
        statuses: Counter[int] = Counter()

        def respond(request: ShopRequest) -> ShopResponse:
            if request.path == "/robots.txt":
                return self._robots(robots)
            if request.path == "/" and home:
                return ShopResponse(status=302, headers=(("Location", home),))
            response = handle(request)
            statuses[response.status] += 1
            self.gate.count(is_gated=is_gated)
            return response

        server = HttpServer(respond, self.gate.enter if is_gated else None)
        await server.start(self._bind(port))
        self._servers.append(server)
        return statuses

    def _robots(self, text: str) -> ShopResponse:
        body = rename(text, self.names).encode()
        return ShopResponse(status=200 if text else 404, body=body, content_type=TEXT)

    def refuse(self, port: int) -> None:
        """Take a port on which nobody listens."""
        self._sockets.append(self._bind(port))

    def close(self) -> None:
        """Close all ports and connections."""
        for server in self._servers:
            server.close()
        for one in self._sockets:
            one.close()

    def _bind(self, port: int) -> socket.socket:
        one = socket.socket()
        one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        one.bind((ADDRESS, 0 if self._are_free else port))
        self.names[f"{ADDRESS}:{port}"] = f"{ADDRESS}:{one.getsockname()[1]}"
        return one


def rename(text: str, names: Mapping[str, str]) -> str:
    """Replace the usual addresses of ports by the real ones."""
    for usual, real in names.items():
        text = text.replace(usual, real)
    return text


@asynccontextmanager
async def open_ports(*, are_free: bool) -> AsyncIterator[Ports]:
    """Yield ports that are closed at the end."""
    ports = Ports(are_free=are_free)
    try:
        yield ports
    finally:
        ports.close()


# Serves a site, and yields its ports and a function that returns what it has counted.
OpenSite = Callable[[bool], AbstractAsyncContextManager[tuple[Ports, Callable[[], dict[str, Any]]]]]


def serve(open_site: OpenSite) -> None:
    """Serve a site by hand until Ctrl-C, or with `--free` for a program that reads JSON."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--free", action="store_true", help="use free ports, print JSON, end with stdin")
    asyncio.run(_serve(open_site, parser.parse_args().free))


async def _serve(open_site: OpenSite, are_free: bool) -> None:
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    async with open_site(are_free) as (ports, report):
        if are_free:
            print(json.dumps(ports.names), flush=True)

            def read_orders() -> None:
                for line in sys.stdin:
                    loop.call_soon_threadsafe(ports.gate.obey, line)
                loop.call_soon_threadsafe(stop.set)

            threading.Thread(target=read_orders, daemon=True).start()
        else:
            print(f"Serving http://{next(iter(ports.names))}/  Press Ctrl-C to stop.", flush=True)
        await stop.wait()
        print(json.dumps(report()), flush=True)


class SiteOfExample:
    """The site of an example on free ports, while the context is open; `report` is set when it closes."""

    def __init__(self, name: str) -> None:
        self._command = [sys.executable, "-m", f"examples.{name}.site", "--free"]
        self._lines: queue.Queue[str] = queue.Queue()
        self.names: dict[str, str] = {}
        self.report: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.names = json.loads(self._next_line("the site to start"))
        return self

    def __exit__(self, *_: object) -> None:
        try:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait(PATIENCE)
            self._reader.join(PATIENCE)
            lines = list(self._lines.queue)
            self.report = json.loads(lines[-1]) if lines else {}
        finally:
            self._process.kill()
            self._process.wait()

    def wait_for_pages(self, count: int) -> None:
        """Wait until it has served this many pages of all hosts since `hold_after`, or since its start."""
        self._order(f"tell {count}")
        self._next_line(f"{count} pages")

    def hold_after(self, count: int) -> None:
        """Serve no more than this many pages from now on until `go`: work is left, however long one looks."""
        self._order(f"hold {count}")

    def go(self) -> None:
        """Serve what was held, and everything after it."""
        self._order("go")

    def _order(self, text: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{text}\n")
        self._process.stdin.flush()

    def _next_line(self, what: str) -> str:
        try:
            return self._lines.get(timeout=PATIENCE)
        except queue.Empty:
            raise Failure(f"Waited for {what} in vain") from None

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)
