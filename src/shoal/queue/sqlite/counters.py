"""Counters that change in the same transaction as the rows they count: summed first, written once."""

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum

from shoal.queue.sqlite.store import Store, as_json


class CounterColumn(IntEnum):
    """The counters of lanes and sections, in the order of COUNTER_NAMES and of the table columns."""

    PENDING = 0
    DELAYED = 1
    LEASED = 2
    COMPLETED = 3
    DEAD = 4
    EXPIRED = 5
    DROPPED = 6
    ITEMS = 7
    REJECTED = 8


PENDING, DELAYED, LEASED, COMPLETED, DEAD, EXPIRED, DROPPED, ITEMS, REJECTED = CounterColumn


class CounterChanges:
    """The changes of one call to the counters, and the lanes and hosts it touched."""

    def __init__(self) -> None:
        self._lanes: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(CounterColumn))
        self._section_of: dict[int, int] = {}
        self._workers: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._hosts: set[int] = set()
        self._touched_lanes: set[int] = set()

    def move(
        self, lane: int, section: int, source: CounterColumn, target: CounterColumn, count: int = 1
    ) -> None:
        """Count tasks that change from one state to another."""
        counts = self._lanes[lane]
        counts[source] -= count
        counts[target] += count
        self._section_of[lane] = section

    def shift(self, lane: int, section: int, column: CounterColumn, count: int) -> None:
        """Count tasks that enter or leave a lane in the same state."""
        self._lanes[lane][column] += count
        self._section_of[lane] = section

    def add(self, lane: int, column: CounterColumn, count: int) -> None:
        """Count the results of tasks of a lane; `move` must be called for them as well."""
        self._lanes[lane][column] += count

    def credit(self, worker: int, *, completed: int = 0, failed: int = 0, items: int = 0) -> None:
        """Count the work of a worker."""
        counts = self._workers[worker]
        counts[0] += completed
        counts[1] += failed
        counts[2] += items

    def touch(self, host: int) -> None:
        """Remember a host whose leases or limits have changed."""
        self._hosts.add(host)

    def touch_lanes(self, lanes: Iterable[int]) -> None:
        """Remember lanes whose tasks were added and counted elsewhere."""
        self._touched_lanes.update(lanes)

    def write(self, store: Store) -> None:
        """Write the counters, and recompute when the lanes are due."""
        store.run_many("count_lanes", [(lane, *counts) for lane, counts in self._lanes.items()])
        store.run_many(
            "count_sections", [(section, *counts) for section, counts in self._sum_sections().items()]
        )
        store.run_many("count_workers", [(worker, *counts) for worker, counts in self._workers.items()])
        lanes = self._touched_lanes.union(self._lanes)
        if lanes or self._hosts:
            store.run("arm", lanes=as_json(list(lanes)), hosts=as_json(list(self._hosts)))

    def _sum_sections(self) -> dict[int, list[int]]:
        sums: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(CounterColumn))
        for lane, counts in self._lanes.items():
            totals = sums[self._section_of[lane]]
            for column, count in enumerate(counts):
                totals[column] += count
        return sums
