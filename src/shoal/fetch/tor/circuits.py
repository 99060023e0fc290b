"""Which circuit a host is asked by: one for each host and visitor, and another one when it is renewed."""

import secrets
from dataclasses import dataclass, field
from itertools import count

from shoal.core.exchange import Guise
from shoal.fetch.cookies import CookieJar
from shoal.fetch.shared import Shelf

MOST_HOSTS = 10_000
MOST_VISITORS = 1_000  # of one host
ANYBODY = ""


@dataclass(eq=False, slots=True)
class Circuit:
    """A name under which Tor shares circuits with no other, and the visitor who is seen to come by them."""

    host: str
    visitor: str
    name: str
    guise: Guise = field(repr=False)
    uses: int = 0


class Circuits:
    """Knows the circuits of every host; after `renew` requests by one, the host gets another."""

    def __init__(self, renew: int | None = None) -> None:
        self._renew, self._numbers = renew, count(1)
        self._salt = secrets.token_hex(4)
        self._known: Shelf[dict[str, Circuit]] = Shelf(MOST_HOSTS)
        self.renewed = 0

    def take(self, host: str, guise: Guise | None = None) -> Circuit:
        """Return the circuit for one more request to a host, as this visitor."""
        visitor = guise.key if guise else ANYBODY
        circuit = self._of(host).get(visitor)
        if circuit and self._renew and circuit.uses >= self._renew:
            self.renew(circuit)
        circuit = self._of(host).get(visitor) or self._put(host, visitor)
        circuit.uses += 1
        return circuit

    def renew(self, circuit: Circuit) -> bool:
        """Let its host have another one from now on; return whether it had not yet."""
        # Of many requests that fail together by one circuit, the first renews it.
        if self._of(circuit.host).get(circuit.visitor) is not circuit:
            return False
        self._put(circuit.host, circuit.visitor)
        self.renewed += 1
        return True

    def renew_host(self, host: str) -> None:
        """Let a host have other circuits from now on, whoever visits it."""
        self.renewed += len(self._of(host))
        self._known.put(host, {})

    def renew_all(self) -> None:
        """Let every host have other circuits from now on."""
        self.renewed += len(self._known)
        self._known = Shelf(MOST_HOSTS)

    def _of(self, host: str) -> dict[str, Circuit]:
        return self._known.get(host) or {}

    def _put(self, host: str, visitor: str) -> Circuit:
        visitors = self._of(host)
        if not visitors or len(visitors) >= MOST_VISITORS:
            visitors = self._known.put(host, {})
        name = f"{self._salt}-{next(self._numbers)}"
        # Cookies of the old circuit would tell a host who comes by the new one.
        visitors[visitor] = Circuit(host, visitor, name, Guise(key=name, cookies=CookieJar()))
        return visitors[visitor]
