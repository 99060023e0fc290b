"""A fetcher whose every request goes by Tor, or not at all."""

import asyncio
import logging
from collections.abc import Collection
from dataclasses import replace
from re import Pattern

from shoal.core.errors import Blocked, BrokenAnswer, ConnectFailed, FetchTimeout, HttpStatus
from shoal.core.exchange import Request, Response
from shoal.core.tasks import watched
from shoal.core.urls import host_of
from shoal.fetch.answer import accepted
from shoal.fetch.contract import Fetcher
from shoal.fetch.tor import demand
from shoal.fetch.tor.board import Board, TorState
from shoal.fetch.tor.circuits import Circuit, Circuits
from shoal.fetch.tor.tor import Tor

log = logging.getLogger("shoal.fetch.tor")


class TorFetcher:
    """Sends each host's requests by a circuit of its own, which a block or a failure renews.

    While Tor is down it raises TorDown, and asks nobody. It does so too for a request that was under way when
    Tor died; with `Request.once`, that one fails like any other.
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
        self._telling: asyncio.Task[None] | None = None
        demand.listen(self)

    async def fetch(self, request: Request) -> Response:
        """Return the answer, whatever its status; raises TorDown, FetchError, or what `on_hop` raises."""
        circuit = self._circuits.take(host_of(request.url), request.guise)
        way, restarts = self._tor.way(circuit.name), self._tor.restarts
        sent = replace(request, way=way, guise=request.guise or circuit.guise)
        try:
            response = await self._fetcher.fetch(sent)
        except (ConnectFailed, BrokenAnswer, FetchTimeout):
            is_same = self._tor.restarts == restarts and await self._tor.answers()
            if not is_same and not request.once:
                raise self._tor.down() from None
            self._renew(circuit, "failure")
            raise
        if self._is_blocked(response):
            self._renew(circuit, "block")
        return response

    async def close(self) -> None:
        """Let go of every connection, and end Tor."""
        demand.forget(self)
        if self._telling:
            self._telling.cancel()
        await self._fetcher.close()
        await self._tor.close()

    def tell(self, board: Board) -> None:
        """Tell the fleet how Tor is doing, and renew circuits when it asks for that."""
        self._telling = watched(asyncio.create_task(board.run(self)))

    def state(self) -> TorState:
        """Return how Tor is doing."""
        return TorState(self._tor.is_up, self._tor.says, self._circuits.renewed, self._tor.restarts)

    def renew_host(self, host: str) -> None:
        """Let a host be asked by another circuit from now on."""
        self._circuits.renew_host(host)
        log.info("tor circuit renewed host=%s reason=demand", host)

    async def renew_all(self) -> None:
        """Let every host be asked by another circuit from now on."""
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
