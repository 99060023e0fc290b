"""The retry policy: decides whether a failed task is retried, and when; other modules carry it out.

The limit is `max_attempts`, one more than what other tools call max_retries or RETRY_TIMES.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Self

import msgspec
from msgspec.structs import replace

from shoal.core.errors import (
    Blocked,
    BreakpointRefused,
    ConnectFailed,
    DnsFailed,
    HttpStatus,
    InvalidInput,
    NoSuchHost,
    OutOfScope,
    ParseFailed,
    RetryLater,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
    TooLarge,
    WrongFileType,
)
from shoal.core.failures import message_of
from shoal.core.model import MINUTE, NOTHING, SECOND, ZERO, Bury, Lease, Retry
from shoal.core.pacing import slower

BASE_DELAY = SECOND  # after the first failed attempt, unless a setting says otherwise
CONNECT_WAIT = 5 * SECOND  # times the attempt: a server that restarts refuses connections for some seconds
DNS_WAIT = MINUTE  # resolvers cache a failure for about as long
ROBOTS_WAIT = MINUTE  # fetchers cache a failure to get robots.txt for as long
TLS_TRIES = 2
AT_MOST_ONCE = "delivery is at_most_once"  # why a task is buried that might be tried again otherwise
UNWELCOME = frozenset({200, 403})  # statuses of a block page
TRANSIENT_4XX = frozenset({408, 425, 429})
PERMANENT_5XX = frozenset({501, 505})


# Errors that no retry can change, whatever the retry policy says.
PERMANENT = (RobotsDenied, OutOfScope, TooLarge, WrongFileType, ParseFailed, InvalidInput, BreakpointRefused)
# Errors of the user's own code that are raised for every page, and those that depend on the page.
CODE_ERRORS = (NameError, ImportError, SyntaxError, TypeError, AttributeError)
PAGE_ERRORS = (TypeError, AttributeError, LookupError, UnboundLocalError)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Retry settings of one error class, or of all; None means the default."""

    attempts: int | None = None
    delay: timedelta | None = None
    factor: float | None = None
    cap: timedelta | None = None
    jitter: float | None = None


NO_RULE = RetryRule()


class RetryPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Number of attempts and delays between them.

    `rules` are exceptions by status ("429"), group of statuses ("5xx") or error class name.
    """

    max_attempts: int = 3
    base: timedelta = BASE_DELAY
    cap: timedelta = 5 * MINUTE
    factor: float = 2.0
    jitter: float = 1.0  # the random share of a delay
    rules: Mapping[str, RetryRule] = msgspec.field(default_factory=lambda: NOTHING)

    def rule_for(self, error: Exception) -> RetryRule:
        """Return the rule of the error's status, else of its class or the nearest base class that has one."""
        if not self.rules:
            return NO_RULE
        names = (kind.__name__ for kind in type(error).__mro__)
        found = (self.rules[name] for name in names if name in self.rules)
        return self._status_rule(error) or next(found, NO_RULE)

    def allows_status(self, error: HttpStatus) -> bool:
        """Return whether a rule sets the attempts of the error's status."""
        rule = self._status_rule(error)
        return rule is not None and rule.attempts is not None

    def _status_rule(self, error: Exception) -> RetryRule | None:
        if not isinstance(error, HttpStatus):
            return None
        return self.rules.get(str(error.status)) or self.rules.get(f"{error.status // 100}xx")

    def under(self, rule: RetryRule) -> Self:
        """Return the policy with the settings of a rule; a delay above the cap raises the cap."""
        if rule is NO_RULE:
            return self
        base = self.base if rule.delay is None else rule.delay
        return replace(
            self,
            max_attempts=self.max_attempts if rule.attempts is None else rule.attempts,
            base=base,
            cap=max(base, self.cap) if rule.cap is None else rule.cap,
            factor=self.factor if rule.factor is None else rule.factor,
            jitter=self.jitter if rule.jitter is None else rule.jitter,
        )

    @property
    def most_attempts(self) -> int:
        """The maximum number of attempts of any error class."""
        return max(self.max_attempts, *(rule.attempts or 0 for rule in self.rules.values()), 0)

    def backoff(self, attempt: int, jitter: float) -> timedelta:
        """Return the delay after a failed attempt: exponential, with a random part; `jitter` is in [0, 1)."""
        # The exponent is bounded, or the float would overflow; the cap is reached long before.
        grown = self.base.total_seconds() * self.factor ** min(attempt - 1, 100)
        wait = timedelta(seconds=min(self.cap.total_seconds(), grown))
        return wait * (1 - self.jitter * (1 - jitter))


def judge(
    lease: Lease,
    error: Exception,
    policy: RetryPolicy,
    *,
    jitter: float,
    host_delay: timedelta = ZERO,
    by_proxies: bool = False,
    in_own_code: bool = False,
    is_repeated: bool = False,
) -> Retry | Bury:
    """Decide whether to retry a failed task, and when, or bury it; `host_delay` is its host's slowdown.

    `in_own_code` says that the user's own code has raised the error, rather than a library, and `is_repeated`
    that the page is the one that caused the same error at the last attempt.
    """
    rule = policy.rule_for(error)
    policy = policy.under(rule)
    wait = policy.backoff(lease.attempt, jitter)
    last = lease.attempt >= policy.max_attempts
    match error:
        case _ if isinstance(error, PERMANENT):
            return Bury(lease, error)
        case Blocked(status=status, retry_after=None) if by_proxies and status in UNWELCOME:
            # The host blocks one exit address, and the next attempt uses another.
            return Bury(lease, error) if last else Retry(lease, error, after=wait)
        case Blocked(retry_after=asked):
            delay, pause = slower(host_delay, asked)
            # Never zero, which would end a pause set by another worker.
            pause = max(pause or wait, delay, ZERO if rule.delay is None else wait)
            # Slow the host down even if the task is buried: its other tasks would keep sending requests.
            if last:
                return Bury(lease, error, pause_host=pause, slow_host=delay)
            return Retry(lease, error, after=pause, pause_host=pause, slow_host=delay)
        case RobotsUnavailable():
            # Every page of the host needs robots.txt: the pause saves the attempts of its other tasks.
            pause = ROBOTS_WAIT + wait
            return Bury(lease, error, pause_host=pause) if last else Retry(lease, error, pause, pause)
        case HttpStatus(status=status) if not is_transient(status) and not policy.allows_status(error):
            return Bury(lease, error)
        case _ if last:
            return Bury(lease, error)
        case RetryLater(after=timedelta() as asked):
            return Retry(lease, error, after=asked)
        case _ if in_own_code and rule.attempts is None and _is_final(error, is_repeated):
            return Bury(lease, error)
        case HttpStatus(retry_after=timedelta() as asked):
            return Retry(lease, error, after=slower(ZERO, asked).pause or wait)
        case TlsFailed() if rule.attempts is None and lease.attempt >= TLS_TRIES:
            return Bury(lease, error)
        case NoSuchHost() if rule.attempts is None:
            return Bury(lease, error)
        case DnsFailed() if rule.delay is None:
            return Retry(lease, error, after=DNS_WAIT + wait)
        case ConnectFailed() if type(error) is ConnectFailed and policy.base == BASE_DELAY:
            return Retry(lease, error, after=lease.attempt * CONNECT_WAIT + wait)
        case _:
            return Retry(lease, error, after=wait)


def _is_final(error: Exception, is_repeated: bool) -> bool:
    """Return whether an error of the user's own code will be raised by every further attempt."""
    if is_repeated and isinstance(error, PAGE_ERRORS):
        return True
    # None is what a page without the element gives: the next response may have it.
    depends_on_page = isinstance(error, UnboundLocalError) or "NoneType" in message_of(error)
    return isinstance(error, CODE_ERRORS) and not depends_on_page


def is_transient(status: int) -> bool:
    """Return whether a status may be different a moment later."""
    return status in TRANSIENT_4XX or (500 <= status <= 599 and status not in PERMANENT_5XX)
