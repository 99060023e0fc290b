"""Counts that change together with what they count, added up first and written once."""

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum

from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json


class Column(IntEnum):
    """What is counted of lanes and sections, in the order of the tables."""

    PENDING = 0
    DELAYED = 1
    LEASED = 2
    COMPLETED = 3
    DEAD = 4
    EXPIRED = 5
    DROPPED = 6
    ITEMS = 7
    REJECTED = 8


COUNTS = tuple(column.name.lower() for column in Column)
PENDING, DELAYED, LEASED, COMPLETED, DEAD, EXPIRED, DROPPED, ITEMS, REJECTED = Column


class Tally:
    """What one call adds to the counts, and which lanes and hosts it touched."""

    def __init__(self) -> None:
        self._lanes: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
        self._section_of: dict[int, int] = {}
        self._workers: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._hosts: set[int] = set()
        self._others: set[int] = set()

    def move(self, lane: int, section: int, source: Column, target: Column, count: int = 1) -> None:
        """Count tasks that go from one state to another."""
        counts = self._lanes[lane]
        counts[source] -= count
        counts[target] += count
        self._section_of[lane] = section

    def add(self, lane: int, column: Column, count: int) -> None:
        """Count what tasks of a lane have yielded; they are moved as well."""
        self._lanes[lane][column] += count

    def credit(self, worker: int, *, completed: int = 0, failed: int = 0, items: int = 0) -> None:
        """Count what a worker has done."""
        counts = self._workers[worker]
        counts[0] += completed
        counts[1] += failed
        counts[2] += items

    def touch(self, host: int) -> None:
        """Remember a host whose leases or gate have changed."""
        self._hosts.add(host)

    def touch_lanes(self, lanes: Iterable[int]) -> None:
        """Remember lanes that were given tasks, and counted, elsewhere."""
        self._others.update(lanes)

    def write(self, store: Store) -> None:
        """Write the counts, and set anew when the lanes are due."""
        store.many("count_lanes", [(lane, *counts) for lane, counts in self._lanes.items()])
        store.many("count_sections", [(section, *counts) for section, counts in self._sections().items()])
        store.many("count_workers", [(worker, *counts) for worker, counts in self._workers.items()])
        lanes = self._others.union(self._lanes)
        if lanes or self._hosts:
            store.tell("arm", lanes=as_json(list(lanes)), hosts=as_json(list(self._hosts)))

    def _sections(self) -> dict[int, list[int]]:
        sums: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
        for lane, counts in self._lanes.items():
            of_section = sums[self._section_of[lane]]
            for column, count in enumerate(counts):
                of_section[column] += count
        return sums
