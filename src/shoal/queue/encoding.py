"""Values as stores hold them: times in microseconds, texts without NUL, counters by number."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import fields
from datetime import UTC, datetime, timedelta

from shoal.core.model import Counts, Stats, StepGroup

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
FOREVER = 1 << 60  # microseconds; a time plus a few such durations still fits into 64 bits

# The counters of tasks, in the order in which every store holds them.
COUNTER_NAMES = tuple(field.name for field in fields(Counts))


def micros(duration: timedelta) -> int:
    """Return a duration in microseconds."""
    return max(-FOREVER, min(duration // MICROSECOND, FOREVER))


def optional_micros(duration: timedelta | None) -> int | None:
    return None if duration is None else micros(duration)


def duration(count: int) -> timedelta:
    """Return microseconds as a duration."""
    return timedelta(microseconds=count)


def optional_duration(count: int | None) -> timedelta | None:
    return None if count is None else duration(count)


def since_epoch(moment: datetime) -> int:
    """Return an aware datetime in microseconds since the epoch."""
    return (moment - EPOCH) // MICROSECOND


def moment(count: int) -> datetime:
    """Return microseconds since the epoch as a datetime in UTC."""
    return EPOCH + timedelta(microseconds=count)


def counts_from(pairs: Iterable[tuple[int, int]]) -> Counts:
    """Return the sum of counters, each with its position in COUNTER_NAMES; one may occur more than once."""
    return Counts(**_sums(pairs))


def stats_from(rows: Iterable[tuple[str, str, int, int]], lost: int = 0) -> Stats:
    """Return the counts of a run in total, by step and by partition, from (step, partition, counter, count).

    A step or partition that has only zeros, because all of its tasks were duplicates, is left out.
    """
    total: list[tuple[int, int]] = []
    steps: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    partitions: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    groups: defaultdict[StepGroup, list[tuple[int, int]]] = defaultdict(list)
    for step, partition, counter, count in rows:
        if count:
            for pairs in (total, steps[step], partitions[partition], groups[step, partition]):
                pairs.append((counter, count))
    return Stats(
        **_sums(total),
        steps={name: counts_from(pairs) for name, pairs in steps.items()},
        partitions={name: counts_from(pairs) for name, pairs in partitions.items()},
        left={group: left for group, pairs in groups.items() if (left := counts_from(pairs).remaining)},
        lost=lost,
    )


def _sums(pairs: Iterable[tuple[int, int]]) -> dict[str, int]:
    sums = dict.fromkeys(COUNTER_NAMES, 0)
    for counter, count in pairs:
        sums[COUNTER_NAMES[counter]] += int(count)
    return sums


def storable(text: str) -> str:
    """Return a text without characters that a database cannot store: NUL and lone surrogates."""
    return text.replace("\0", "\\0").encode(errors="backslashreplace").decode()
