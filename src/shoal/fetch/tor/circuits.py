"""Which circuit a request uses: one for each host and session, replaced when it is renewed."""

import secrets
from dataclasses import dataclass, field
from itertools import count

from shoal.core.http import Identity
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.singleflight import LruCache

MAX_HOSTS = 10_000
MAX_SESSIONS = 1_000  # of one host
NO_SESSION = ""


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
