"""Errors that postpone a task: it is tried again later and uses no attempt."""

from datetime import timedelta

from shoal.core.errors.base import ShoalError


class NotNow(ShoalError):
    """The task cannot be tried now, through no fault of its own or its host; retry it `after` this time."""

    def __init__(self, reason: str, after: timedelta) -> None:
        self.reason, self.after = reason, after
        super().__init__(reason)


class ProxyTrouble(NotNow):
    """The proxy failed; the task is not charged an attempt, and another proxy is tried."""


class NoProxyLeft(NotNow):
    """Every proxy is benched, and direct connections are not allowed."""


class TokenSetAside(NotNow):
    """The API token was rejected; the task is not charged an attempt, and another token is tried."""


class TokensResting(NotNow):
    """Every API token has used its quota for now."""


class NoTokenLeft(NotNow):
    """Every API token was rejected, and none is tried again."""

    def __init__(self, count: int, advice: str, after: timedelta) -> None:
        self.count, self.advice = count, advice
        tokens = "The only token was" if count == 1 else f"All {count} tokens were"
        super().__init__(f"{tokens} rejected by the API. {advice}", after)


class NoTabFree(NotNow):
    """Every tab of the worker's browser is in use, and other tasks are already waiting."""


class BrowserDown(NotNow):
    """The worker's browser does not start."""


class BrowserLost(NotNow):
    """The worker's browser crashed with several pages open; the cause is unknown, so none is charged."""


class NeedsBrowser(NotNow):
    """The page needs JavaScript; it is fetched again with a browser."""


class NoSession(NotNow):
    """No session is available: none is logged in, or the host has rejected all of them."""


class TorDown(NotNow):
    """The worker's Tor is not running, and nothing is sent without it."""

    def __init__(self, why: str, after: timedelta) -> None:
        super().__init__(f"Tor is not running: {why}", after)
