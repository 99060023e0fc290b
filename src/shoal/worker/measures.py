"""What is counted for metrics, beyond what every worker counts anyway."""

from bisect import bisect_left
from collections import Counter
from dataclasses import dataclass, field

# The upper bounds of the classes of a fetch's duration, in seconds; the last one has none.
BUCKETS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)


def _empty() -> list[int]:
    return [0] * (len(BUCKETS) + 1)


@dataclass(slots=True)
class Measures:
    """Counts of one worker, or of several added up; every name in it is one of few."""

    tasks: dict[str, int] = field(default_factory=Counter)  # by "OUTCOME STEP"
    statuses: dict[str, int] = field(default_factory=Counter)  # by class: 2xx
    fetches: list[int] = field(default_factory=_empty)  # by how long they took
    fetch_seconds: float = 0.0

    def task(self, outcome: str, step: str) -> None:
        """Count a task that was settled."""
        key = f"{outcome} {step}"
        self.tasks[key] = self.tasks.get(key, 0) + 1

    def fetched(self, seconds: float, status: int | None) -> None:
        """Count a fetch; without a status nothing came home."""
        self.fetches[bisect_left(BUCKETS, seconds)] += 1
        self.fetch_seconds += seconds
        name = f"{status // 100}xx" if status and 100 <= status < 600 else "none"
        self.statuses[name] = self.statuses.get(name, 0) + 1

    def __add__(self, other: "Measures") -> "Measures":
        return Measures(
            tasks=Counter(self.tasks) + Counter(other.tasks),
            statuses=Counter(self.statuses) + Counter(other.statuses),
            fetches=[mine + others for mine, others in zip(self.fetches, other.fetches, strict=True)],
            fetch_seconds=self.fetch_seconds + other.fetch_seconds,
        )
