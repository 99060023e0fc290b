"""One visitor: its cookies, its headers, its browser, and how well it is received."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shoal.core.exchange import Guise
from shoal.core.model import NOTHING
from shoal.core.secrets import current_secrets
from shoal.fetch.cookies import CookieJar

BEST = 3.0  # of scores; every visitor begins with it
PRAISE, BLAME = 0.5, 1.0
WORST = 0.0

Clock = Callable[[], float]


@dataclass(eq=False, slots=True)
class Session:
    """What belongs together: it is used, scored and thrown away as one."""

    number: int  # its place among its like
    profile: str | None = None
    born: float = 0.0
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    cookies: CookieJar = field(default_factory=CookieJar, repr=False)
    score: float = BEST
    uses: int = 0
    last_used: float = 0.0
    is_ready: bool = False  # whether it may be sent
    is_retired: bool = False
    _headers: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)  # by origin

    @property
    def guise(self) -> Guise:
        """Who hosts believe that it is."""
        return Guise(key=self.key, cookies=self.cookies, profile=self.profile)

    def headers(self, origin: str) -> Mapping[str, str]:
        """Return what it says to an origin, and to no other."""
        return self._headers.get(origin, NOTHING)

    def say(self, origin: str, name: str, value: str) -> None:
        """Send a header to an origin from now on."""
        self._headers.setdefault(origin, {})[name] = value
        if secrets := current_secrets():
            secrets.sent({name: value})  # or will be: the login that says it may fail before

    def praise(self) -> None:
        """It was received as it should be."""
        self.score = min(BEST, self.score + PRAISE)

    def blame(self) -> None:
        """It was turned away."""
        self.score -= BLAME

    def is_worn(self, now: float, max_uses: int | None, max_age: float | None) -> bool:
        """Tell whether it is time for another one."""
        is_old = max_age is not None and now - self.born >= max_age
        is_used = max_uses is not None and self.uses >= max_uses
        return self.score <= WORST or is_old or is_used


def now() -> float:
    """Return the time by which sessions age."""
    return time.monotonic()
