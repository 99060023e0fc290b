"""The site of an example: request handlers on ports of 127.0.0.1, in a process of its own."""

import argparse
import asyncio
import json
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

from shoal.demo.http import Connection, ShopRequest
from shoal.demo.routes import TEXT, ShopResponse

ADDRESS = "127.0.0.1"
ROOT = Path(__file__).parents[2]
TIMEOUT = 30.0  # seconds for a site to start, and again to stop

Handler = Callable[[ShopRequest], ShopResponse]


class Ports:
    """Opens ports while a site is served; `names` maps the usual address of each to the real one."""

    def __init__(self, *, are_free: bool) -> None:
        self._are_free = are_free
        self._sockets: list[socket.socket] = []
        self._servers: list[asyncio.Server] = []
        self._clients: set[Connection] = set()
        self.names: dict[str, str] = {}

    async def serve(self, handle: Handler, port: int, *, home: str = "", robots: str = "") -> Counter[int]:
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
            return response

        listener = self._bind(port)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: Connection(respond, self._clients), sock=listener)
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
        for client in list(self._clients):
            client.close()
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
            threading.Thread(
                target=lambda: (sys.stdin.read(), loop.call_soon_threadsafe(stop.set)), daemon=True
            ).start()
        else:
            print(f"Serving http://{next(iter(ports.names))}/  Press Ctrl-C to stop.", flush=True)
        await stop.wait()
        print(json.dumps(report()), flush=True)


class SiteOfExample:
    """The site of an example on free ports, while the context is open; `report` is set when it closes."""

    def __init__(self, name: str) -> None:
        self._command = [sys.executable, "-m", f"examples.{name}.site", "--free"]
        self.names: dict[str, str] = {}
        self.report: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        self.names = json.loads(self._process.stdout.readline())
        return self

    def __exit__(self, *_: object) -> None:
        try:
            output = self._process.communicate(timeout=TIMEOUT)[0]
            self.report = json.loads(output or b"{}")
        finally:
            self._process.kill()
            self._process.wait()
