"""By whose leave a connection of the browser passes the gate, and what was refused to it."""

import secrets
import time
from base64 import b64encode
from collections.abc import Callable
from dataclasses import dataclass, field

from shoal.core.errors import ShoalError, TooLarge
from shoal.core.exchange import Way

MOST_REFUSALS = 1_000

OnSpent = Callable[[ShoalError], None]


@dataclass(slots=True, eq=False)
class Pass:
    """What the pages of one context may do: a secret of its own, a way out, a measure of bytes."""

    way: Way | None = None
    name: str = field(default_factory=lambda: secrets.token_hex(8))
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    left: int = 0
    _pages: set[OnSpent] = field(default_factory=set)
    _refusals: dict[str, tuple[float, ShoalError]] = field(default_factory=dict)

    @property
    def token(self) -> str:
        """What the browser shows at the gate."""
        return b64encode(f"{self.name}:{self.secret}".encode()).decode()

    def begin(self, most: int, on_spent: OnSpent) -> None:
        """Let a page begin, which may move so many bytes; those of one context share what they may."""
        self._pages.add(on_spent)
        self.left = most * len(self._pages)

    def end(self, on_spent: OnSpent) -> None:
        """Count a page no longer."""
        self._pages.discard(on_spent)

    def spend(self, count: int) -> bool:
        """Count bytes; False when there are too many, which the pages are told."""
        self.left -= count
        if self.left >= 0:
            return True
        for tell in list(self._pages):
            tell(TooLarge("The page and what it loads are larger than the limit; see max_body"))
        return False

    def refuse(self, host: str, error: ShoalError) -> None:
        """Remember why a host was not reached."""
        if len(self._refusals) >= MOST_REFUSALS:
            self._refusals.clear()
        self._refusals[host] = time.monotonic(), error

    def refusal(self, host: str, since: float) -> ShoalError | None:
        """Return why a host was not reached since a moment."""
        when, error = self._refusals.get(host, (0.0, None))
        return error if when >= since else None


class Passes:
    """All that are good at the moment."""

    def __init__(self) -> None:
        self._known: dict[str, Pass] = {}

    def give(self, way: Way | None) -> Pass:
        """Make a pass for a new context."""
        made = Pass(way)
        self._known[made.token] = made
        return made

    def take_back(self, one: Pass) -> None:
        """Let nobody through with it any more."""
        self._known.pop(one.token, None)

    def find(self, shown: str) -> Pass | None:
        """Return the pass that a Proxy-Authorization header shows."""
        scheme, _, token = shown.partition(" ")
        return self._known.get(token.strip()) if scheme.lower() == "basic" else None
