"""A fetcher that sends every request through Tor, or not at all."""

import asyncio
import logging
import secrets
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from itertools import count
from re import Pattern
from weakref import WeakKeyDictionary

from shoal.core.errors import BrokenAnswer, ConnectFailed, FetchTimeout, OutOfScope
from shoal.core.http import Identity, Request, Response
from shoal.core.tasks import watched
from shoal.core.urls import host_of
from shoal.fetch.contract import Fetcher
from shoal.fetch.egress import AllowedTarget, Egress
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.singleflight import LruCache
from shoal.fetch.status import is_block
from shoal.fetch.tor.sync import TorState, TorSync
from shoal.fetch.tor.tor import Tor

MAX_HOSTS = 10_000
MAX_SESSIONS = 1_000  # of one host
NO_SESSION = ""

log = logging.getLogger("shoal.fetch.tor")


class TorEgress(Egress):
    """Allows what may be fetched through Tor, onion services included, and nothing directly."""

    reaches_onions = True

    async def admit(self, url: str) -> AllowedTarget:
        """Refuse: the caller is about to bypass Tor; raises OutOfScope."""
        raise OutOfScope("Direct connections are not allowed in a run that uses Tor")


@dataclass(eq=False, slots=True)
class Circuit:
    """A SOCKS user name whose streams share no circuit with another, and the identity that goes with it."""

    host: str
    session: str
    name: str
    identity: Identity = field(repr=False)
    uses: int = 0


class Circuits:
    """The circuits of every host; after `renew` requests through one, the host gets another."""

    def __init__(self, renew: int | None = None) -> None:
        self._renew, self._numbers = renew, count(1)
        self._salt = secrets.token_hex(4)
        self._known: LruCache[dict[str, Circuit]] = LruCache(MAX_HOSTS)
        self.renewed = 0

    def take(self, host: str, identity: Identity | None = None) -> Circuit:
        """Return the circuit for one more request to a host in this session."""
        session = identity.key if identity else NO_SESSION
        circuit = self._of(host).get(session)
        if circuit and self._renew and circuit.uses >= self._renew:
            self.renew(circuit)
        circuit = self._of(host).get(session) or self._put(host, session)
        circuit.uses += 1
        return circuit

    def renew(self, circuit: Circuit) -> bool:
        """Replace the circuit of its host; return False if that was already done."""
        # Of many requests that fail together through one circuit, the first renews it.
        if self._of(circuit.host).get(circuit.session) is not circuit:
            return False
        self._put(circuit.host, circuit.session)
        self.renewed += 1
        return True

    def renew_host(self, host: str) -> None:
        """Replace the circuits of a host, in every session."""
        self.renewed += len(self._of(host))
        self._known.put(host, {})

    def renew_all(self) -> None:
        """Replace the circuits of every host."""
        self.renewed += len(self._known)
        self._known = LruCache(MAX_HOSTS)

    def _of(self, host: str) -> dict[str, Circuit]:
        return self._known.get(host) or {}

    def _put(self, host: str, session: str) -> Circuit:
        sessions = self._of(host)
        if not sessions or len(sessions) >= MAX_SESSIONS:
            sessions = self._known.put(host, {})
        name = f"{self._salt}-{next(self._numbers)}"
        # Cookies of the old circuit would identify the client that uses the new one.
        sessions[session] = Circuit(host, session, name, Identity(key=name, cookies=CookieJar()))
        return sessions[session]


class TorFetcher:
    """Uses a separate circuit for each host; a block or a failure renews it.

    While Tor is down it raises TorDown, and sends nothing. It also does so for a request that was in flight
    when Tor died; with `Request.on_sent`, that one fails like any other.
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
        _open[self] = asyncio.get_running_loop()

    async def fetch(self, request: Request) -> Response:
        """Return the response, whatever its status; raises TorDown, FetchError, or what `on_hop` raises."""
        circuit = self._circuits.take(host_of(request.url), request.identity)
        proxy, restarts = self._tor.proxy(circuit.name), self._tor.restarts
        sent = replace(request, proxy=proxy, identity=request.identity or circuit.identity)
        try:
            response = await self._fetcher.fetch(sent)
        except (ConnectFailed, BrokenAnswer, FetchTimeout):
            is_same = self._tor.restarts == restarts and await self._tor.is_working()
            if not is_same and not request.on_sent:
                raise self._tor.down() from None
            self._renew(circuit, "failure")
            raise
        if is_block(response, also=self._statuses, block=self._block):
            self._renew(circuit, "block")
        return response

    async def close(self) -> None:
        """Close every connection, and stop Tor."""
        _open.pop(self, None)
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


_open: WeakKeyDictionary[TorFetcher, asyncio.AbstractEventLoop] = WeakKeyDictionary()


def new_circuit(url: str | None = None) -> None:
    """Make this worker use another circuit for a URL's host, or for every host, from now on."""
    for fetcher, loop in list(_open.items()):
        if loop.is_closed():
            continue
        # From any thread: a step that is not an `async def` runs in one.
        if url is not None:
            loop.call_soon_threadsafe(fetcher.renew_host, host_of(url))
        else:
            asyncio.run_coroutine_threadsafe(fetcher.renew_all(), loop)
