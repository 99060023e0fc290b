"""Credentials of the browser's contexts at the browser proxy, and what was refused to each."""

import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.core.errors import ShoalError, TooLarge
from shoal.core.http import Proxy

MAX_REFUSALS = 1_000

OnExceeded = Callable[[ShoalError], None]


@dataclass(slots=True, eq=False)
class ProxyCredential:
    """What the pages of one context may use: their own secret, a proxy, a number of bytes."""

    proxy: Proxy | None = None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    left: int = 0
    _pages: set[OnExceeded] = field(default_factory=set)
    _refusals: dict[str, tuple[float, ShoalError]] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """What the browser sends in Proxy-Authorization."""
        return b64encode(f"{self.name}:{self.secret}".encode()).decode()

    def begin(self, max_bytes: int, on_exceeded: OnExceeded) -> None:
        """Start a page that may transfer `most` bytes; pages of one context share their limits."""
        self._pages.add(on_exceeded)
        self.left = max_bytes * len(self._pages)

    def end(self, on_exceeded: OnExceeded) -> None:
        """Stop counting a page."""
        self._pages.discard(on_exceeded)

    def consume(self, count: int) -> bool:
        """Count bytes; False when there are too many, which fails the pages."""
        self.left -= count
        if self.left >= 0:
            return True
        for on_exceeded in list(self._pages):
            on_exceeded(TooLarge("The page and what it loads are larger than the limit; see max_body"))
        return False

    def refuse(self, host: str, error: ShoalError) -> None:
        """Record why a host was not reached."""
        if len(self._refusals) >= MAX_REFUSALS:
            self._refusals.clear()
        self._refusals[host] = time.monotonic(), error

    def refusal(self, host: str, since: float) -> ShoalError | None:
        """Return why a host was not reached since a moment."""
        when, error = self._refusals.get(host, (0.0, None))
        return error if when >= since else None


class ProxyCredentials:
    """All valid credentials."""

    def __init__(self) -> None:
        self._known: dict[str, ProxyCredential] = {}

    def create(self, proxy: Proxy | None) -> ProxyCredential:
        """Create a credential for a new context."""
        made = ProxyCredential(proxy)
        self._known[made.token] = made
        return made

    def revoke(self, one: ProxyCredential) -> None:
        """Revoke a credential."""
        self._known.pop(one.token, None)

    def find(self, credential: str) -> ProxyCredential | None:
        """Return the credential of a Proxy-Authorization header."""
        scheme, _, token = credential.partition(" ")
        return self._known.get(token.strip()) if scheme.lower() == "basic" else None
