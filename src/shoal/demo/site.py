"""The bundled site: a few shops on loopback, with the faults of real sites.

`python -m shoal.demo.site` serves it in its own process.
"""

import asyncio
import socket
import sys
from collections.abc import Mapping
from functools import partial
from typing import Any, Self

from shoal.core.model import NOTHING
from shoal.demo.catalogue import Shop, open_shops
from shoal.demo.http import Connection, ShopRequest
from shoal.demo.layout import STAFF
from shoal.demo.request_log import HostLog, SiteLog
from shoal.demo.routes import ShopResponse, ShopRoutes
from shoal.demo.sections import Section

ADDRESS = "127.0.0.1"
SHOPS, PRODUCTS, SEED = 4, 2_000, 2026
BACKLOG = 1_024  # connections that wait to be accepted


class DemoSite:
    """Serves shops while the context is open; each shop is its own host, a port of 127.0.0.1.

    With `port=0` free ports are used, else they count up from `port`. Sections are parts of the first shop
    that only some scrapers visit, by the start of their paths.
    """

    def __init__(
        self,
        shops: int = SHOPS,
        products: int = PRODUCTS,
        *,
        seed: int = SEED,
        port: int = 0,
        sections: Mapping[str, Section] = NOTHING,
    ) -> None:
        self._shops = open_shops(shops, products, seed)
        self._port = port
        self._sections = sections
        self._servers: list[asyncio.Server] = []
        self._clients: set[Connection] = set()
        self.seeds: list[str] = []
        self.log = SiteLog()

    @property
    def products(self) -> frozenset[str]:
        """The SKUs that give a valid item: a scraper must find them all."""
        return frozenset(one.sku for shop in self._shops for one in shop.products if one.has_price)

    @property
    def rejects(self) -> frozenset[str]:
        """The SKUs without a price: a scraper must reject them."""
        return frozenset(one.sku for shop in self._shops for one in shop.products if not one.has_price)

    @property
    def hosts(self) -> list[str]:
        """The shops as `host:port`."""
        return list(self.log.hosts)

    def as_json(self) -> dict[str, Any]:
        """Return what another process needs to know, as plain data."""
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
        # Bound before it is served: the pages contain the port.
        listener = socket.create_server((ADDRESS, self._port and self._port + shop.number), backlog=BACKLOG)
        host = f"{ADDRESS}:{listener.getsockname()[1]}"
        sections = {} if shop.number else self._sections
        respond = partial(_respond, self.log, host, ShopRoutes(shop, f"http://{host}"), sections)
        loop = asyncio.get_running_loop()
        self.log.hosts[host] = HostLog()
        self.seeds.append(f"http://{host}/")
        server = await loop.create_server(
            lambda: Connection(respond, self._clients), sock=listener, backlog=BACKLOG
        )
        self._servers.append(server)

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for client in list(self._clients):
            client.close()
        for server in self._servers:
            await server.wait_closed()


def _respond(
    log: SiteLog, host: str, routes: ShopRoutes, sections: Mapping[str, Section], request: ShopRequest
) -> ShopResponse:
    """Return the response of a shop, and log it."""
    section = sections.get(request.path.split("/", 2)[1].partition("?")[0]) if sections else None
    if section:
        response = section(request)
    elif request.method in ("GET", "HEAD"):
        response = routes.respond(request.path)
    else:
        return ShopResponse(status=405)
    log.record(host, response.status)
    if response.status == 200:
        log.visits[f"http://{host}{request.path}"] += 1
    if request.path.startswith(STAFF):
        log.forbidden[host] += 1
    return response


if __name__ == "__main__":
    from shoal.demo.serve import main

    sys.exit(main())
