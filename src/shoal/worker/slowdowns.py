"""How much a host is slowed after it complained, and how it recovers.

The queue keeps each host's slowdown, and every lease tells it. So no worker needs to remember a slowdown for
the host to recover: whoever has a success with it, in whatever run, eases what the store has.
"""

from datetime import timedelta

from shoal.core.model import ZERO
from shoal.core.pacing import recovered

ONE_COMPLAINT = 1.0  # seconds: requests in flight together are answered alike, and slow the host once
LEASED_BEFORE = 5.0  # seconds after a complaint in which most successes are of leases from before it
MAX_HOSTS = 10_000


class Slowdowns:
    """Decides what an outcome sets a host's slowdown to."""

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap  # between two starts of a host that has not complained
        self._complaints: dict[str, tuple[float, timedelta]] = {}  # the last of each host, and its slowdown

    def before_complaint(self, host: str | None, known: timedelta, now: float) -> timedelta:
        """Return the delay from which a host that complains now is slowed further; `known` is its lease's."""
        at, set_to = self._last_complaint(host, now)
        delay = max(self._gap, known, set_to)
        return delay / 2 if now - at < ONE_COMPLAINT else delay

    def complained(self, host: str | None, slowdown: timedelta | None, now: float) -> None:
        """Remember that a host complained, and was slowed to this delay."""
        if host and slowdown:
            at, _ = self._last_complaint(host, now)
            self._complaints.pop(host, None)
            self._complaints[host] = (at if now - at < ONE_COMPLAINT else now, slowdown)
            if len(self._complaints) > MAX_HOSTS:
                del self._complaints[next(iter(self._complaints))]

    def after_success(
        self, host: str | None, known: timedelta, crawl_delay: timedelta | None, now: float
    ) -> timedelta | None:
        """Return what to set a host's slowdown to after a success; None where nothing is to change."""
        floor = crawl_delay or ZERO
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
