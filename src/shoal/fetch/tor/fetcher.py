"""A fetcher that sends every request through Tor, or not at all."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from re import Pattern

from shoal.core.errors import Blocked, BrokenAnswer, ConnectFailed, FetchTimeout, HttpStatus
from shoal.core.http import Request, Response
from shoal.core.tasks import watched
from shoal.core.urls import host_of
from shoal.fetch.contract import Fetcher
from shoal.fetch.status import accepted
from shoal.fetch.tor import renewal
from shoal.fetch.tor.circuits import Circuit, Circuits
from shoal.fetch.tor.sync import TorState, TorSync
from shoal.fetch.tor.tor import Tor

log = logging.getLogger("shoal.fetch.tor")


class TorFetcher:
    """Uses a separate circuit for each host; a block or a failure renews it.

    While Tor is down it raises TorDown, and sends nothing. It also does so for a request that was in flight
    when Tor died; with `Request.once`, that one fails like any other.
    """

    def __init__(
        self,
        fetcher: Fetcher,
        tor: Tor,
        *,
        renew: int | None = None,
        statuses: Collection[int] = (),
        block: Pattern[str] | None = None,
    ) -> None:
        self._fetcher, self._tor, self._circuits = fetcher, tor, Circuits(renew)
        self._statuses, self._block = statuses, block
        self._sync_task: asyncio.Task[None] | None = None
        renewal.listen(self)

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises TorDown, FetchError, or what `on_hop` raises."""
        circuit = self._circuits.take(host_of(request.url), request.identity)
        proxy, restarts = self._tor.proxy(circuit.name), self._tor.restarts
        sent = replace(request, proxy=proxy, identity=request.identity or circuit.identity)
        try:
            response = await self._fetcher.fetch(sent)
        except (ConnectFailed, BrokenAnswer, FetchTimeout):
            is_same = self._tor.restarts == restarts and await self._tor.is_working()
            if not is_same and not request.once:
                raise self._tor.down() from None
            self._renew(circuit, "failure")
            raise
        if self._is_blocked(response):
            self._renew(circuit, "block")
        return response

    async def close(self) -> None:
        """Close every connection, and stop Tor."""
        renewal.forget(self)
        if self._sync_task:
            self._sync_task.cancel()
        await self._fetcher.close()
        await self._tor.close()

    def start_sync(self, sync: TorSync) -> None:
        """Publish the state of Tor to the fleet, and renew circuits when it requests that."""
        self._sync_task = watched(asyncio.create_task(sync.run(self)))

    def state(self) -> TorState:
        """Return the state of Tor."""
        return TorState(self._tor.is_up, self._tor.status_text, self._circuits.renewed, self._tor.restarts)

    def renew_host(self, host: str) -> None:
        """Use another circuit for a host from now on."""
        self._circuits.renew_host(host)
        log.info("tor circuit renewed host=%s reason=demand", host)

    async def renew_all(self) -> None:
        """Use another circuit for every host from now on."""
        self._circuits.renew_all()
        log.info("tor circuits renewed reason=demand")
        await self._tor.renew()

    def _renew(self, circuit: Circuit, reason: str) -> None:
        if self._circuits.renew(circuit):
            log.info("tor circuit renewed host=%s reason=%s", circuit.host, reason)

    def _is_blocked(self, response: Response) -> bool:
        try:
            accepted(response, also=self._statuses, block=self._block)
        except Blocked:
            return True
        except HttpStatus:
            return False
        return False
