"""What one worker knows of one proxy."""

from collections import Counter
from enum import StrEnum

from shoal.core.exchange import Way

SHAKY = 3  # failures in a row after which a proxy that has worked is no longer believed to
WEIGHT = 0.2  # of the newest page in the mean time that pages take


class Fault(StrEnum):
    """What went wrong with a proxy."""

    DEAD = "dead"  # it cannot be reached, or does not speak as it should
    REFUSED = "refused"  # it is there, and will not do it
    SLOW = "slow"  # nothing came in time
    BLOCKED = "blocked"  # the host does not want to see it


class Standing:
    """How a proxy has done in this worker."""

    __slots__ = (
        "faults",
        "has_worked",
        "in_hand",
        "is_on_trial",
        "last_fault",
        "last_page",
        "pages",
        "seconds",
        "streak",
        "turns",
        "used",
        "way",
    )

    def __init__(self, way: Way) -> None:
        self.way = way
        self.in_hand = 0  # requests that are under way
        self.used = 0  # times that it was taken
        self.turns = 0  # the same, but whoever comes later has as many as those who were there
        self.pages = 0
        self.has_worked = False
        self.faults: Counter[Fault] = Counter()
        self.last_fault: Fault | None = None
        self.streak = 0  # failures in a row
        self.seconds: float | None = None  # that a page takes, newer ones counting more
        self.last_page: float | None = None  # when the last one came
        self.is_on_trial = False  # it was benched, and has not worked since

    @property
    def is_in_doubt(self) -> bool:
        """Whether it is given no more than one request at a time."""
        return not self.has_worked or self.streak > 0 or self.is_on_trial

    @property
    def is_proven(self) -> bool:
        """Whether it works as far as anyone can tell, so that a failure may be its target's."""
        return self.has_worked and self.streak < SHAKY and not self.is_on_trial

    def served(self, seconds: float, now: float) -> None:
        """Remember a page."""
        self.worked()
        self.pages += 1
        self.last_page = now
        self.seconds = seconds if self.seconds is None else self.seconds + WEIGHT * (seconds - self.seconds)

    def worked(self) -> None:
        """Remember that it did what a proxy should, whatever its target said."""
        self.has_worked, self.streak, self.is_on_trial = True, 0, False

    def failed(self, fault: Fault) -> None:
        """Remember a failure that is the proxy's own."""
        self.note(fault)
        self.streak += 1

    def note(self, fault: Fault) -> None:
        """Remember that something went wrong, whoever is to blame."""
        self.faults[fault] += 1
        self.last_fault = fault

    def returned(self) -> None:
        """Come back from the bench."""
        self.streak, self.is_on_trial = 0, True
