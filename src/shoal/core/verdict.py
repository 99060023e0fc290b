"""What becomes of a task whose handling failed: decided here, carried out elsewhere."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Self

from shoal.core.errors import (
    Blocked,
    DnsFailed,
    HttpStatus,
    InvalidInput,
    OutOfScope,
    ParseFailed,
    RobotsDenied,
    RobotsUnavailable,
    TlsFailed,
    TooLarge,
)
from shoal.core.model import MINUTE, NOTHING, SECOND, ZERO, Bury, Lease, Retry
from shoal.core.pacing import slower

DNS_WAIT = MINUTE  # resolvers keep a failure for about as long
ROBOTS_WAIT = MINUTE  # and fetchers the failure to get robots.txt
TLS_TRIES = 2
UNWELCOME = frozenset({200, 403})  # a block page, or none at all
PASSING_4XX = frozenset({408, 425, 429})
LASTING_5XX = frozenset({501, 505})


# Errors that no retry can change, whatever the retry policy says.
PERMANENT = (RobotsDenied, OutOfScope, TooLarge, ParseFailed, InvalidInput)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryRule:
    """Retry settings of one error class, or of all of them; None means "as by default"."""

    attempts: int | None = None
    delay: timedelta | None = None
    factor: float | None = None
    cap: timedelta | None = None
    jitter: float | None = None


NO_RULE = RetryRule()


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a task is tried, and how long it waits; `rules` are exceptions by error class name."""

    max_attempts: int = 3
    base: timedelta = SECOND
    cap: timedelta = 5 * MINUTE
    factor: float = 2.0
    jitter: float = 1.0  # the random share of a wait
    rules: Mapping[str, RetryRule] = field(default_factory=lambda: NOTHING)

    def rule_for(self, error: Exception) -> RetryRule:
        """Return the rule of the error's class, or of the nearest base class that has one."""
        for kind in type(error).__mro__ if self.rules else ():
            if kind.__name__ in self.rules:
                return self.rules[kind.__name__]
        return NO_RULE

    def under(self, rule: RetryRule) -> Self:
        """Return the policy with what a rule sets; a delay above the cap raises the cap."""
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
        """The most attempts that any error class may have."""
        return max(self.max_attempts, *(rule.attempts or 0 for rule in self.rules.values()), 0)

    def backoff(self, attempt: int, jitter: float) -> timedelta:
        """Return the wait after a failed attempt: exponential, its random share out of [0, 1)."""
        # The exponent is bounded: a float overflows, and the cap has long been reached.
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
) -> Retry | Bury:
    """Decide what becomes of a task whose handling failed; `host_delay` is what its host is slowed to now."""
    rule = policy.rule_for(error)
    policy = policy.under(rule)
    wait = policy.backoff(lease.attempt, jitter)
    last = lease.attempt >= policy.max_attempts
    match error:
        case _ if isinstance(error, PERMANENT):
            return Bury(lease, error)
        case Blocked(status=status, retry_after=None) if by_proxies and status in UNWELCOME:
            # It is one visitor that the host does not like, and the next one is another.
            return Bury(lease, error) if last else Retry(lease, error, after=wait)
        case Blocked(retry_after=asked):
            delay, pause = slower(host_delay, asked)
            # Never zero, which would end a pause that another worker has set.
            pause = max(pause or wait, delay, ZERO if rule.delay is None else wait)
            # The host is spared even when the task is given up: its other tasks would go on asking.
            if last:
                return Bury(lease, error, pause_host=pause, slow_host=delay)
            return Retry(lease, error, after=pause, pause_host=pause, slow_host=delay)
        case RobotsUnavailable():
            # Every page of the host needs it: paused, the others do not run out of attempts meanwhile.
            pause = ROBOTS_WAIT + wait
            return Bury(lease, error, pause_host=pause) if last else Retry(lease, error, pause, pause)
        case HttpStatus(status=status) if not _passes(status):
            return Bury(lease, error)
        case _ if last:
            return Bury(lease, error)
        case HttpStatus(retry_after=timedelta() as asked):
            return Retry(lease, error, after=slower(ZERO, asked).pause or wait)
        case TlsFailed() if rule.attempts is None and lease.attempt >= TLS_TRIES:
            return Bury(lease, error)
        case DnsFailed() if rule.delay is None:
            return Retry(lease, error, after=DNS_WAIT + wait)
        case _:
            return Retry(lease, error, after=wait)


def _passes(status: int) -> bool:
    return status in PASSING_4XX or (500 <= status <= 599 and status not in LASTING_5XX)
