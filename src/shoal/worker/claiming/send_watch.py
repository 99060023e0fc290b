"""When requests have left, at the latest: one that was held up on its way delays the next to its host."""

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from shoal.core.tasks import call_at, exact_time
from shoal.worker.prefetch import LeaseKey, ScheduledLease, host_of, key_of

# It is enough to know before the next start, and what the client waits for later is no longer this request.
MAX_WATCH = 0.25  # seconds; for shorter gaps, half the gap
# A host whose responses usually vary by more than this says nothing about when a request has left.
REGULAR, MAX_EXCESS = 0.05, 0.25  # of the gap
WEIGHT = 0.1  # of the newest response in the moving average
AGEING = 0.02  # of the shortest time: a host may become slower
MAX_HOSTS = 10_000


class ResponseTimes:
    """Tells how late responses of hosts are, for hosts that usually take the same time."""

    def __init__(self) -> None:
        self._hosts: dict[
            str, tuple[float, float]
        ] = {}  # the shortest time, and by how much others exceed it

    def find_excess(self, host: str, seconds: float, gap: float) -> float:
        """Record how long a response took; return its excess over the shortest, zero if that says nothing."""
        longest = MAX_EXCESS * gap
        if host not in self._hosts:
            if len(self._hosts) >= MAX_HOSTS:
                self._hosts.clear()
            self._hosts[host] = seconds, 0.0
            return min(seconds, longest)  # the first may have been late as a whole: it needed a connection
        shortest, usual = self._hosts[host]
        excess = min(max(0.0, seconds - shortest), longest)
        shortest = min(seconds, shortest + AGEING * min(excess, REGULAR * gap))
        self._hosts[host] = shortest, usual + WEIGHT * (excess - usual)
        return excess if usual <= REGULAR * gap else 0.0


class _HandedOver(NamedTuple):
    at: float
    waited: float  # seconds, by the client until then
    gap: float
    timer: asyncio.TimerHandle


class SendWatch:
    """Finds out when each request has left at the latest, and records it.

    The look at the clock cannot see what comes after it: the process, or the thread of the HTTP client that
    gets the request, may wait for a processor, and the machine may stand still. `waited` returns for how many
    seconds that thread has waited so far; the time that a regular host takes to respond shows the rest.
    """

    def __init__(self, record: Callable[[ScheduledLease, float], None], waited: Callable[[], float]) -> None:
        self._record, self._waited = record, waited
        self._times = ResponseTimes()
        self._open: dict[LeaseKey, _HandedOver] = {}

    def begin(self, start: ScheduledLease, gap: float) -> None:
        """Watch a request that is sent without waiting for anything else."""
        # The next turn of the event loop comes when the request is in the client's hands.
        asyncio.get_running_loop().call_soon(self._hand_over, start, gap)

    def _hand_over(self, start: ScheduledLease, gap: float) -> None:
        now = exact_time()
        timer = call_at(now + min(gap / 2, MAX_WATCH), lambda: self._give_up(start))
        self._open[key_of(start.lease)] = _HandedOver(now, self._waited(), gap, timer)

    def _give_up(self, start: ScheduledLease) -> None:
        """Record what is known before the response."""
        handed = self._open.pop(key_of(start.lease))
        self._record(start, handed.at + self._waited() - handed.waited)

    def end(self, start: ScheduledLease) -> None:
        """Record when a request has left that has its response now."""
        handed, host = self._open.pop(key_of(start.lease), None), host_of(start.lease)
        if not handed or not host:
            return
        handed.timer.cancel()
        took = exact_time() - handed.at
        waited = min(took, self._waited() - handed.waited)
        self._record(start, handed.at + max(waited, self._times.find_excess(host, took, handed.gap)))
