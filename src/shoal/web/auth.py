"""Authentication: tokens, session cookies, a one-time login ticket, and a throttle of wrong tokens."""

import hmac
import logging
import math
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Literal

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import Request

from shoal.web.context import WebContext, WebSettings, context_of
from shoal.web.errors import ApiError

Role = Literal["operator", "reader"]
SESSION = timedelta(hours=12)
BEARER = "bearer "
MAX_ENDED_SESSIONS = 10_000  # remembered; starting each one needed a token

log = logging.getLogger(__name__)

LOCK_TIMEOUT_SECONDS = 60.0  # how long a failure counts, and how long a lock lasts
MAX_FAILURES_PER_ADDRESS, MAX_FAILURES = 10, 100
ALL = ""  # key that stands for every address

TICKET_TTL_SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class Principal:
    """An authenticated client; `name` is its address."""

    role: Role
    name: str


class Credentials:
    """Checks tokens, and signs and checks session cookies."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._digests = {role: _digest(token) for role, token in settings.tokens.items()}
        # The key derives from the token, so changing the token ends its sessions.
        self._signers = {
            role: TimestampSigner(_digest(f"shoal session {token}"), salt="shoal.web", digest_method=sha256)
            for role, token in settings.tokens.items()
        }
        self._ended: OrderedDict[bytes, None] = OrderedDict()  # digests of logged-out sessions

    @property
    def cookie(self) -> str:
        """The name of the cookie; it has the port, since browsers share cookies between ports."""
        prefix = "__Host-" if self._settings.is_behind_https else ""
        return f"{prefix}shoal_{self._settings.port}"

    def role_of_token(self, given: str) -> Role | None:
        """Return the role of a token, None if unknown; takes the same time for every wrong token."""
        digest = _digest(given)
        matches = {role: hmac.compare_digest(digest, known) for role, known in self._digests.items()}
        return next((self._as_role(role) for role, is_match in matches.items() if is_match), None)

    def role_of_cookie(self, value: str) -> Role | None:
        """Return the role of a session, None if it is forged, expired or logged out."""
        for role, signer in self._signers.items():
            try:
                signed = signer.unsign(value, max_age=int(SESSION.total_seconds()))
            except BadSignature:
                continue
            if signed.decode().partition(" ")[0] == role and _digest(value) not in self._ended:
                return self._as_role(role)
        return None

    def new_session(self, role: Role) -> str:
        """Return the cookie value of a new session."""
        return self._signers[role].sign(f"{role} {secrets.token_urlsafe(12)}").decode()

    def end_session(self, value: str) -> None:
        """Revoke a session cookie; a value that is no valid session is ignored."""
        if self.role_of_cookie(value):
            self._ended[_digest(value)] = None
            if len(self._ended) > MAX_ENDED_SESSIONS:
                self._ended.popitem(last=False)

    def role_of(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Role | None:
        """Return the role of a request; a token takes precedence over a cookie."""
        given = headers.get("authorization", "")
        if given.lower().startswith(BEARER):
            return self.role_of_token(given[len(BEARER) :].strip())
        value = cookies.get(self.cookie)
        return self.role_of_cookie(value) if value else None

    def _as_role(self, role: str) -> Role:
        return "operator" if role == "operator" else "reader"


def principal_of(request: Request) -> Principal:
    """Return who sent a request; the middleware has authenticated it."""
    principal: Principal = request.scope["state"]["principal"]
    return principal


def check_operator(context: WebContext, principal: Principal) -> None:
    """Raise a 403 for a reader, and for anyone on a read-only server."""
    if context.settings.read_only:
        raise ApiError(
            403, "ReadOnly", "This server is read-only. Start it without --read-only to allow changes."
        )
    if principal.role != "operator":
        raise ApiError(403, "Forbidden", "The reader token cannot make changes. Use the operator token.")


def may_act(request: Request) -> bool:
    """Whether the user may make changes; a page shows no button that would be rejected."""
    return principal_of(request).role == "operator" and not context_of(request).settings.read_only


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()


class Throttle:
    """Counts the failures of the last minute, by address and in total; remembers `MAX_FAILURES` at most."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failures: deque[tuple[float, str]] = deque(maxlen=MAX_FAILURES)
        self._locked: dict[str, float] = {}  # end of the lock, by address

    def record_failure(self, address: str) -> None:
        """Count a wrong token."""
        now = self._clock()
        self._failures.append((now, address))
        recent = [origin for at, origin in self._failures if at > now - LOCK_TIMEOUT_SECONDS]
        if recent.count(address) >= MAX_FAILURES_PER_ADDRESS:
            self._locked[address] = now + LOCK_TIMEOUT_SECONDS
            log.warning(
                "Too many wrong tokens from %s; login locked for this address for one minute.", address
            )
        if len(recent) >= MAX_FAILURES:
            self._locked[ALL] = now + LOCK_TIMEOUT_SECONDS
            log.warning("Too many wrong tokens; login locked for every address for one minute.")

    def wait_seconds(self, address: str) -> int:
        """Return how many seconds an address is still locked out; zero if it may try."""
        now = self._clock()
        self._locked = {key: until for key, until in self._locked.items() if until > now}
        ends = [self._locked[key] for key in (address, ALL) if key in self._locked]
        return math.ceil(max(ends) - now) if ends else 0


class Ticket:
    """A one-time login, for the person who started the server."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.text = secrets.token_urlsafe(24)
        self._clock, self._ends = clock, clock() + TICKET_TTL_SECONDS

    def redeem(self, given: str) -> bool:
        """Use the ticket; False if it is another one, used or expired."""
        is_valid = hmac.compare_digest(_digest(given), _digest(self.text)) and self._clock() < self._ends
        self._ends = 0.0 if is_valid else self._ends
        return is_valid
