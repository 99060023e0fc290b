"""What becomes of a task whose handling failed: decided here, carried out elsewhere."""

from dataclasses import dataclass
from datetime import timedelta

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
from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Lease, Retry
from shoal.core.pacing import slower

DNS_WAIT = MINUTE  # resolvers keep a failure for about as long
ROBOTS_WAIT = MINUTE  # and fetchers the failure to get robots.txt
TLS_TRIES = 2
UNWELCOME = frozenset({200, 403})  # a block page, or none at all
PASSING_4XX = frozenset({408, 425, 429})
LASTING_5XX = frozenset({501, 505})


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """How often a task is tried, and how long it waits in between."""

    max_attempts: int = 3
    base: timedelta = SECOND
    cap: timedelta = 5 * MINUTE

    def backoff(self, attempt: int, jitter: float) -> timedelta:
        """Return the wait after a failed attempt: exponential, with full jitter out of [0, 1)."""
        # Past 20 doublings the cap has long been reached, and a timedelta would overflow.
        doubled = self.base * (1 << min(attempt - 1, 20))
        return min(self.cap, doubled) * jitter


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
    wait = policy.backoff(lease.attempt, jitter)
    last = lease.attempt >= policy.max_attempts
    match error:
        case RobotsDenied() | OutOfScope() | TooLarge() | ParseFailed() | InvalidInput():
            return Bury(lease, error)
        case Blocked(status=status, retry_after=None) if by_proxies and status in UNWELCOME:
            # It is one visitor that the host does not like, and the next one is another.
            return Bury(lease, error) if last else Retry(lease, error, after=wait)
        case Blocked(retry_after=asked):
            delay, pause = slower(host_delay, asked)
            # Never zero, which would end a pause that another worker has set.
            pause = max(pause or wait, delay)
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
        case TlsFailed() if lease.attempt >= TLS_TRIES:
            return Bury(lease, error)
        case DnsFailed():
            return Retry(lease, error, after=DNS_WAIT + wait)
        case _:
            return Retry(lease, error, after=wait)


def _passes(status: int) -> bool:
    return status in PASSING_4XX or (500 <= status <= 599 and status not in LASTING_5XX)
