"""What a worker has done so far."""

from collections import Counter
from dataclasses import dataclass, field

from shoal.core.model import Bury, Done, Fate, Outcome, Release, Retry
from shoal.worker.measures import Measures


@dataclass(slots=True)
class Tally:
    """Counts of one worker, or of several added up."""

    pages: int = 0  # tasks that were completed
    items: int = 0
    rejected: int = 0
    retried: int = 0
    buried: int = 0
    released: int = 0
    stale: int = 0  # outcomes that came too late and were refused
    bytes: int = 0
    kept: int = 0  # pages that were at hand, so that nobody was asked
    errors: dict[str, int] = field(default_factory=Counter)  # by class
    put_off: dict[str, int] = field(default_factory=Counter)  # tasks that could not be tried, by reason
    dropped: dict[str, int] = field(default_factory=Counter)  # links that were not followed, by reason
    measures: Measures | None = None  # what metrics are made of, where someone asked for them

    def count(self, outcome: Outcome, fate: Fate) -> None:
        """Count an outcome that was settled."""
        if fate is Fate.STALE:
            self.stale += 1
            return
        match outcome:
            case Done():
                self.pages += 1
                self.items += len(outcome.items)
                self.rejected += len(outcome.rejects)
            case Retry():
                self.retried += 1
            case Bury():
                self.buried += 1
            case Release():
                self.released += 1

    def __add__(self, other: "Tally") -> "Tally":
        return Tally(
            pages=self.pages + other.pages,
            items=self.items + other.items,
            rejected=self.rejected + other.rejected,
            retried=self.retried + other.retried,
            buried=self.buried + other.buried,
            released=self.released + other.released,
            stale=self.stale + other.stale,
            bytes=self.bytes + other.bytes,
            kept=self.kept + other.kept,
            errors=Counter(self.errors) + Counter(other.errors),
            put_off=Counter(self.put_off) + Counter(other.put_off),
            dropped=Counter(self.dropped) + Counter(other.dropped),
            measures=_added(self.measures, other.measures),
        )


def _added(one: Measures | None, other: Measures | None) -> Measures | None:
    return one + other if one and other else one or other


def listed(counts: dict[str, int]) -> str:
    """Return the largest counts in words: 12 HttpError, 3 Timeout."""
    return ", ".join(f"{count:,} {name}" for name, count in most_of(counts))


def most_of(counts: dict[str, int], limit: int = 5) -> list[tuple[str, int]]:
    """Return the largest counts, the largest first."""
    return Counter(counts).most_common(limit)
