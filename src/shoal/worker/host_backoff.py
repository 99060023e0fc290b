"""How much a host is slowed down after a complaint (429, 503, overload), and how it recovers.

The queue stores each host's slowdown, and every lease carries it. So no worker needs to remember a slowdown
for the host to recover: any success on the host, in any run, reduces the stored value.
"""

from datetime import timedelta

from shoal.core.model import ZERO
from shoal.core.pacing import recovered

ONE_COMPLAINT = 1.0  # seconds: requests in flight together get the same response, and slow the host once
LEASED_BEFORE = 5.0  # seconds after a complaint; most successes in them are of leases from before it
REPLAN_AGAIN = 60.0  # seconds
MAX_HOSTS = 10_000


class HostBackoff:
    """Decides the slowdown of a host that follows from an outcome."""

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap  # between two requests to a host that has not complained
        self._complaints: dict[
            str, tuple[float, timedelta]
        ] = {}  # the last one of each host, and its slowdown
        self._replanned: dict[str, float] = {}  # when the crawl delay of a host was learned

    def before_complaint(self, host: str | None, known: timedelta, now: float) -> timedelta:
        """Return the delay that a complaint now increases; `known` is the slowdown in the lease."""
        at, set_to = self._last_complaint(host, now)
        delay = max(self._gap, known, set_to)
        return delay / 2 if now - at < ONE_COMPLAINT else delay

    def on_complaint(self, host: str | None, slowdown: timedelta | None, now: float) -> None:
        """Record that a host complained, and was slowed to this delay."""
        if host and slowdown:
            at, _ = self._last_complaint(host, now)
            self._complaints.pop(host, None)
            self._complaints[host] = (at if now - at < ONE_COMPLAINT else now, slowdown)
            if len(self._complaints) > MAX_HOSTS:
                del self._complaints[next(iter(self._complaints))]

    def must_replan(self, host: str, now: float) -> bool:
        """Return whether starts that were planned without the crawl delay of a host are planned again.

        For some seconds only, and again after a minute: if the delay does not stay in the store, because
        a run that ignores robots.txt shortens it, the tasks must not be released for ever.
        """
        since = self._replanned.get(host, float("-inf"))
        if now - since > REPLAN_AGAIN:
            self._replanned.pop(host, None)
            self._replanned[host] = since = now
            if len(self._replanned) > MAX_HOSTS:
                del self._replanned[next(iter(self._replanned))]
        return now - since < LEASED_BEFORE

    def after_success(
        self, host: str | None, known: timedelta, floor: timedelta | None, now: float
    ) -> timedelta | None:
        """Return the new slowdown of a host after a success, at least `floor`; None if it does not change."""
        floor = floor or ZERO
        if host is None or known == floor:
            return None
        if known < self._last_complaint(host, now)[1]:
            return None  # the lease is older than the complaint
        self._complaints.pop(host, None)
        eased = recovered(known, floor) if known > floor else floor
        # Below the run's own gap a slowdown has no effect.
        return eased if eased > max(self._gap, floor) else floor

    def _last_complaint(self, host: str | None, now: float) -> tuple[float, timedelta]:
        at, set_to = self._complaints.get(host or "", (float("-inf"), ZERO))
        return (at, set_to) if now - at < LEASED_BEFORE else (float("-inf"), ZERO)
