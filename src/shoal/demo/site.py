"""The bundled site: a few shops on loopback, with the troubles that real ones have.

`python -m shoal.demo.site` opens it in a process of its own.
"""

import asyncio
import socket
import sys
from functools import partial
from typing import Any, Self

from shoal.demo.catalogue import Shop, open_shops
from shoal.demo.http import Connection
from shoal.demo.layout import STAFF
from shoal.demo.record import HostLog, SiteLog
from shoal.demo.routes import Answer, Routes

ADDRESS = "127.0.0.1"
SHOPS, PRODUCTS, SEED = 4, 2_000, 2026
BACKLOG = 1_024  # clients that may knock at once


class Site:
    """Shops that are open while the context lasts, each a host of its own: a port of 127.0.0.1.

    With `port=0` the ports are any that are free, else they count up from `port`.
    """

    def __init__(
        self, shops: int = SHOPS, products: int = PRODUCTS, *, seed: int = SEED, port: int = 0
    ) -> None:
        self._shops = open_shops(shops, products, seed)
        self._port = port
        self._servers: list[asyncio.Server] = []
        self._clients: set[Connection] = set()
        self.seeds: list[str] = []
        self.log = SiteLog()

    @property
    def products(self) -> frozenset[str]:
        """The SKUs that make a valid item: what a scraper must find."""
        return frozenset(one.sku for shop in self._shops for one in shop.products if one.has_price)

    @property
    def rejects(self) -> frozenset[str]:
        """The SKUs without a price: what a scraper must refuse."""
        return frozenset(one.sku for shop in self._shops for one in shop.products if not one.has_price)

    @property
    def hosts(self) -> list[str]:
        """The shops as `host:port`."""
        return list(self.log.hosts)

    def facts(self) -> dict[str, Any]:
        """Return what a visitor in another process must know, as plain data."""
        return {
            "seeds": self.seeds,
            "hosts": self.hosts,
            "products": sorted(self.products),
            "rejects": sorted(self.rejects),
        }

    async def __aenter__(self) -> Self:
        try:
            for shop in self._shops:
                await self._open(shop)
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _open(self, shop: Shop) -> None:
        # Bound before it is served: the pages hold the port.
        door = socket.create_server((ADDRESS, self._port and self._port + shop.number), backlog=BACKLOG)
        host = f"{ADDRESS}:{door.getsockname()[1]}"
        answer = partial(_answer, self.log, host, Routes(shop, f"http://{host}"))
        loop = asyncio.get_running_loop()
        self.log.hosts[host] = HostLog()
        self.seeds.append(f"http://{host}/")
        server = await loop.create_server(
            lambda: Connection(answer, self._clients), sock=door, backlog=BACKLOG
        )
        self._servers.append(server)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for client in list(self._clients):
            client.close()
        for server in self._servers:
            await server.wait_closed()


def _answer(log: SiteLog, host: str, routes: Routes, path: str) -> Answer:
    """Return a shop's answer, and note it."""
    answer = routes.answer(path)
    log.note(host, answer.status)
    if answer.status == 200:
        log.visits[f"http://{host}{path}"] += 1
    if path.startswith(STAFF):
        log.forbidden[host] += 1
    return answer


if __name__ == "__main__":
    from shoal.demo.serve import main

    sys.exit(main())
