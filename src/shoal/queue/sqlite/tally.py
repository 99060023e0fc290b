"""Counts that change together with what they count, added up first and written once."""

from collections import defaultdict
from collections.abc import Iterable

from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json

COUNTS = ("pending", "delayed", "leased", "completed", "dead", "expired", "dropped", "items", "rejected")
_COLUMN = {name: column for column, name in enumerate(COUNTS)}
_WORKER_COLUMN = {"completed": 0, "failed": 1, "items": 2}


class Tally:
    """What one call adds to the counts of lanes, sections and workers, and which gates it moved."""

    def __init__(self) -> None:
        self._lanes: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
        self._sections: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(COUNTS))
        self._workers: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(_WORKER_COLUMN))
        self._hosts: set[int] = set()
        self._others: set[int] = set()

    def add(self, lane: int, section: int, **counts: int) -> None:
        """Count something in a lane and its section."""
        of_lane, of_section = self._lanes[lane], self._sections[section]
        for name, count in counts.items():
            column = _COLUMN[name]
            of_lane[column] += count
            of_section[column] += count

    def add_worker(self, worker: int, **counts: int) -> None:
        of_worker = self._workers[worker]
        for name, count in counts.items():
            of_worker[_WORKER_COLUMN[name]] += count

    def touch(self, hosts: Iterable[int]) -> None:
        """Remember hosts whose leases or gates have changed."""
        self._hosts.update(hosts)

    def touch_lanes(self, lanes: Iterable[int]) -> None:
        """Remember lanes that were given tasks, and counted, elsewhere."""
        self._others.update(lanes)

    def write(self, store: Store) -> None:
        """Write the counts, and set anew when the lanes are due."""
        if self._lanes:
            store.tell("count_lanes", changes=_rows(self._lanes))
            store.tell("count_sections", changes=_rows(self._sections))
        if self._workers:
            store.tell("count_workers", changes=_rows(self._workers))
        lanes = self._others.union(self._lanes)
        if lanes or self._hosts:
            store.tell("arm", lanes=as_json(list(lanes)), hosts=as_json(list(self._hosts)))


def _rows(counts: dict[int, list[int]]) -> str:
    return as_json([[key, *values] for key, values in counts.items()])
