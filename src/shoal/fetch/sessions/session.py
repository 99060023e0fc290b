"""One session: its cookies, its headers, its browser profile, and its score."""

import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from shoal.core.http import Identity
from shoal.core.model import NOTHING
from shoal.core.secrets import current_secrets
from shoal.fetch.http.cookies import CookieJar

MAX_SCORE = 3.0  # score of a new session, and the maximum
SUCCESS_BONUS, BLOCK_PENALTY = 0.5, 1.0
MIN_SCORE = 0.0

Clock = Callable[[], float]


@dataclass(eq=False, slots=True)
class Session:
    """The state of one client: used, scored and retired as a unit."""

    number: int  # its index in the pool
    profile: str | None = None
    created_at: float = 0.0
    key: str = field(default_factory=lambda: secrets.token_hex(8))
    cookies: CookieJar = field(default_factory=CookieJar, repr=False)
    score: float = MAX_SCORE
    uses: int = 0
    last_used: float = 0.0
    is_ready: bool = False  # whether it may be used
    is_retired: bool = False
    _headers: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)  # by origin

    @property
    def identity(self) -> Identity:
        """The identity that hosts see."""
        return Identity(key=self.key, cookies=self.cookies, profile=self.profile)

    def headers(self, origin: str) -> Mapping[str, str]:
        """Return the headers for an origin, sent to no other."""
        return self._headers.get(origin, NOTHING)

    def set_header(self, origin: str, name: str, value: str) -> None:
        """Send a header to an origin from now on."""
        self._headers.setdefault(origin, {})[name] = value
        if secrets := current_secrets():
            secrets.sent({name: value})  # or will be: the login that sets it may fail before

    def record_success(self) -> None:
        """Raise the score after an accepted request."""
        self.score = min(MAX_SCORE, self.score + SUCCESS_BONUS)

    def record_block(self) -> None:
        """Lower the score after a block."""
        self.score -= BLOCK_PENALTY

    def is_expired(self, now: float, max_uses: int | None, max_age: float | None) -> bool:
        """Tell whether it has reached one of its limits."""
        is_old = max_age is not None and now - self.created_at >= max_age
        is_used = max_uses is not None and self.uses >= max_uses
        return self.score <= MIN_SCORE or is_old or is_used


def now() -> float:
    """Return the time by which sessions age."""
    return time.monotonic()
