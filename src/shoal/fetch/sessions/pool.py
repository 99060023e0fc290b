"""The sessions of one host: created when needed, logged in one at a time, replaced when retired."""

import asyncio
import logging
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import msgspec

from shoal.core.errors import LOGIN_FAILED, LoginBroken, NoSession
from shoal.core.http import Identity
from shoal.core.model import NOTHING, SECOND
from shoal.core.redact import redacted
from shoal.core.secrets import current_secrets
from shoal.core.tasks import start_in, watched
from shoal.fetch.http.cookies import CookieJar

MAX_SCORE = 3.0  # score of a new session, and the maximum
SUCCESS_BONUS, BLOCK_PENALTY = 0.5, 1.0
MIN_SCORE = 0.0

Clock = Callable[[], float]

log = logging.getLogger("shoal.sessions")

LOGIN_TIMEOUT = timedelta(minutes=2)
MIN_WAIT, MAX_WAIT = 5 * SECOND, timedelta(minutes=10)  # after failed logins


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
    login_pages: set[str] = field(default_factory=set, repr=False)  # without query
    has_sent_form: bool = False
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


Login = Callable[[Session], Awaitable[None]]  # logs a session in; raises if it cannot


class SessionRules(msgspec.Struct, frozen=True, kw_only=True):
    """How many sessions there are, and how long each is used."""

    size: int = 10
    max_uses: int | None = None
    max_age: timedelta | None = None
    profiles: tuple[str, ...] = ()
    logins: int = 1


class SessionPool:
    """Returns the least recently used session; one that needs a login is not returned before it."""

    def __init__(
        self, rules: SessionRules, login: Login | None = None, *, clock: Clock = time.monotonic
    ) -> None:
        self._rules, self._login, self._clock = rules, login, clock
        self._sessions: dict[int, Session] = {}  # by their numbers
        self._logins: set[asyncio.Task[None]] = set()
        self._failures, self._next_login = 0, float("-inf")
        self._reason = ""

    async def take(self) -> Session:
        """Return a session to use; raises NoSession if none is available at the moment."""
        while True:
            self._retire_expired()
            self._add_session()
            ready = [session for session in self._sessions.values() if session.is_ready]
            if ready:
                session = min(ready, key=lambda one: (one.last_used, one.number))
                session.uses, session.last_used = session.uses + 1, self._clock()
                return session
            if not self._logins:
                raise self._no_session()
            await asyncio.wait(self._logins, return_when=asyncio.FIRST_COMPLETED)

    def log_out(self, session: Session) -> None:
        """Replace a session by one with a new login."""
        self._retire(session, "it is no longer logged in")

    async def close(self) -> None:
        """Cancel logins in progress."""
        for task in self._logins:
            task.cancel()
        if self._logins:
            await asyncio.wait(self._logins)

    def _retire_expired(self) -> None:
        age = self._rules.max_age.total_seconds() if self._rules.max_age else None
        for session in list(self._sessions.values()):
            if session.is_ready and session.is_expired(self._clock(), self._rules.max_uses, age):
                self._retire(session, "it was blocked" if session.score <= 0 else "it reached its limit")

    def _retire(self, session: Session, why: str) -> None:
        if self._sessions.get(session.number) is session:
            del self._sessions[session.number]
            session.is_retired = True
            log.debug("session %s was retired after %d uses: %s", session.key[:6], session.uses, why)

    def _add_session(self) -> None:
        if len(self._sessions) >= self._rules.size:
            return
        if self._login is None:
            self._make().is_ready = True
        elif len(self._logins) < self._rules.logins and self._clock() >= self._next_login:
            watched(start_in(self._logins, self._log_in(self._login, self._make())))

    def _make(self) -> Session:
        number = next(number for number in range(self._rules.size) if number not in self._sessions)
        profiles = self._rules.profiles
        profile = profiles[number % len(profiles)] if profiles else None
        session = self._sessions[number] = Session(number, profile, created_at=self._clock())
        return session

    async def _log_in(self, login: Login, session: Session) -> None:
        try:
            async with asyncio.timeout(LOGIN_TIMEOUT.total_seconds()):
                await login(session)
        except LoginBroken:  # ends the worker; until then no other login begins
            self._retire(session, "its login failed")
            self._next_login = self._clock() + MIN_WAIT.total_seconds()
            raise
        except Exception as error:
            self._login_failed(session, error)
        except asyncio.CancelledError:
            self._retire(session, "its login was cancelled")
            raise
        else:
            session.is_ready, self._failures, self._reason = True, 0, ""

    def _login_failed(self, session: Session, error: Exception) -> None:
        self._retire(session, "its login failed")
        wait = min(MIN_WAIT * 2 ** min(self._failures, 20), MAX_WAIT)
        self._failures += 1
        self._next_login = self._clock() + wait.total_seconds()
        self._reason = redacted(f"{type(error).__name__}: {error}")
        log.warning("A login failed, the next is in %.0f s: %s", wait.total_seconds(), self._reason)

    def _no_session(self) -> NoSession:
        seconds = max(0.0, self._next_login - self._clock())
        why = f" {LOGIN_FAILED}: {self._reason}" if self._reason else ""
        return NoSession(
            f"No session is ready; the next login is in {seconds:.0f} s.{why}", timedelta(seconds=seconds)
        )
