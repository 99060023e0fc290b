"""The store's clock: the machine's, except that it goes on where that is set back.

Gaps of hosts, delays and leases end at times. If the clock were set back by an hour, all of them would last
an hour longer, and the run would stand still. Times and durations are in microseconds.
"""

from typing import NamedTuple

SECOND = 1_000_000
TOLERANCE = 10 * SECOND  # by which the machine's clock may be set back without an effect
RECORD_INTERVAL = 5 * SECOND  # between two records of the time: each costs a write


class RecordedTime(NamedTuple):
    """What the file knows of the time: the latest one, and how far its clock is ahead of the machine's."""

    latest: int
    ahead: int

    def ahead_at(self, machine: int) -> int:
        """Return how far the store's clock is ahead, by the machine's clock; zero unless it was set back."""
        if machine >= self.latest:  # it was set right, or nothing was claimed for as long as it was set back
            return 0
        if machine + self.ahead >= self.latest - TOLERANCE:
            return self.ahead
        return self.latest - machine

    def is_outdated(self, now: int, ahead: int) -> bool:
        """Whether this time of the store must be recorded."""
        return ahead != self.ahead or now >= self.latest + RECORD_INTERVAL
