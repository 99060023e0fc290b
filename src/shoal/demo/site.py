"""The bundled site: a few shops on loopback, with the faults of real sites.

`python -m shoal.demo.site` serves it in its own process, so that a scraper can be measured separately.
"""

import argparse
import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Self

from shoal.demo.catalogue import Shop, open_shops
from shoal.demo.http import ADDRESS, BACKLOG, HttpServer, ShopRequest
from shoal.demo.practice import Section, practice_sections
from shoal.demo.responses import ShopResponse
from shoal.demo.routes import ShopRoutes

SHOPS, PRODUCTS, SEED = 4, 2_000, 2026
TIMEOUT = timedelta(seconds=30)  # for the process to start, and again to stop


class DemoSite:
    """Serves shops while the context is open; each shop is its own host, a port of 127.0.0.1.

    With `port=0` free ports are used, else they count up from `port`.
    """

    def __init__(self, shops: int = SHOPS, products: int = PRODUCTS, *, port: int = 0) -> None:
        self._shops = open_shops(shops, products, SEED)
        self._port = port
        self._servers: list[HttpServer] = []
        self.hosts: list[str] = []  # as `host:port`
        self.statuses: Counter[int] = Counter()
        self.visits: Counter[str] = Counter()  # by URL, responses with status 200

    @property
    def seeds(self) -> list[str]:
        """The front pages."""
        return [f"http://{host}/" for host in self.hosts]

    @property
    def products(self) -> frozenset[str]:
        """The SKUs that give a valid item: a scraper must find them all, and reject the others."""
        return frozenset(one.sku for shop in self._shops for one in shop.products if one.has_price)

    async def __aenter__(self) -> Self:
        try:
            for shop in self._shops:
                await self._open(shop)
        except BaseException:
            self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        self._close()

    async def _open(self, shop: Shop) -> None:
        # Bound before it is served: the pages contain the port.
        listener = socket.create_server((ADDRESS, self._port and self._port + shop.number), backlog=BACKLOG)
        host = f"{ADDRESS}:{listener.getsockname()[1]}"
        sections = {} if shop.number else practice_sections(shop)
        server = HttpServer(partial(self._respond, host, ShopRoutes(shop, f"http://{host}"), sections))
        await server.start(listener)
        self._servers.append(server)
        self.hosts.append(host)

    def _close(self) -> None:
        for server in self._servers:
            server.close()

    def _respond(
        self, host: str, routes: ShopRoutes, sections: Mapping[str, Section], request: ShopRequest
    ) -> ShopResponse:
        """Return the response of a shop, and count it."""
        section = sections.get(request.path.split("/", 2)[1].partition("?")[0])
        if section:
            response = section(request)
        elif request.method in ("GET", "HEAD"):
            response = routes.respond(request.path)
        else:
            return ShopResponse(status=405)
        self.statuses[response.status] += 1
        if response.status == 200:
            self.visits[f"http://{host}{request.path}"] += 1
        return response


class SiteProcess:
    """The site in another process, running while the context is open."""

    def __init__(self, shops: int = SHOPS, products: int = PRODUCTS) -> None:
        self._options = ["--shops", str(shops), "--products", str(products)]
        self.hosts: list[str] = []
        self.seeds: list[str] = []
        self.products: frozenset[str] = frozenset()

    @property
    def pid(self) -> int:
        """The id of the server process."""
        return self._process.pid

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "shoal.demo.site", "--json", *self._options]
        # Ctrl-C in the terminal goes to the scraper, which then closes the site.
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(TIMEOUT.total_seconds())
            raise RuntimeError("The site did not start. Run this to see why: python -m shoal.demo.site")
        data: dict[str, Any] = json.loads(line)
        self.seeds, self.hosts = data["seeds"], data["hosts"]
        self.products = frozenset(data["products"])
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self._process.communicate(timeout=TIMEOUT.total_seconds())  # closes its stdin, which ends it
        finally:
            self._process.kill()
            self._process.wait()


async def wait_for_signal(*, or_stdin: bool = False) -> None:
    """Wait for SIGTERM or SIGINT, or until stdin closes."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)

    def read_stdin() -> None:
        while os.read(0, 65_536):
            pass
        loop.call_soon_threadsafe(stop.set)

    if or_stdin:
        threading.Thread(target=read_stdin, daemon=True).start()
    await stop.wait()


async def _serve(options: argparse.Namespace) -> None:
    async with DemoSite(options.shops, options.products, port=options.port) as site:
        about = {"seeds": site.seeds, "hosts": site.hosts, "products": sorted(site.products)}
        lines = "\n".join(["Serving:", *site.seeds, "Press Ctrl-C to stop."])
        waiting = asyncio.create_task(wait_for_signal(or_stdin=True))
        await asyncio.sleep(0)  # its handlers are there before anybody knows of the site
        print(json.dumps(about) if options.json else lines, flush=True)
        await waiting


def main() -> int:
    """Serve the site until stdin closes or a signal arrives."""
    parser = argparse.ArgumentParser(prog="python -m shoal.demo.site", description="Serve the demo shops.")
    parser.add_argument("--shops", type=int, default=SHOPS, help=f"number of hosts, default {SHOPS}")
    parser.add_argument("--products", type=int, default=PRODUCTS, help=f"in all shops, default {PRODUCTS:,}")
    parser.add_argument("--port", type=int, default=0, help="port of the first shop; 0 uses free ports")
    parser.add_argument("--json", action="store_true", help="print a line of JSON about the site")
    try:
        asyncio.run(_serve(parser.parse_args()))
    except OSError as error:
        print(f"error: The site cannot start: {error.strerror}. Run it with --port 0", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
