"""Counters that change in the same transaction as the rows they count: summed first, written once."""

from collections import defaultdict
from collections.abc import Iterable
from enum import IntEnum

from shoal.queue.sqlite.store import Store, as_json


class CounterColumn(IntEnum):
    """The counters of host queues and step groups, in the order of COUNTER_NAMES and of the table columns."""

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
    """The changes of one call to the counters, and the host queues and hosts it touched."""

    def __init__(self) -> None:
        self._host_queues: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(CounterColumn))
        self._step_group_of: dict[int, int] = {}
        self._workers: defaultdict[int, list[int]] = defaultdict(lambda: [0, 0, 0])
        self._hosts: set[int] = set()
        self._touched_host_queues: set[int] = set()

    def move(self, host_queue: int, step_group: int, source: CounterColumn, target: CounterColumn) -> None:
        """Count a task that changes from one state to another."""
        counts = self._host_queues[host_queue]
        counts[source] -= 1
        counts[target] += 1
        self._step_group_of[host_queue] = step_group

    def shift(self, host_queue: int, step_group: int, column: CounterColumn, count: int) -> None:
        """Count tasks that enter or leave a host queue in the same state."""
        self._host_queues[host_queue][column] += count
        self._step_group_of[host_queue] = step_group

    def add(self, host_queue: int, column: CounterColumn, count: int) -> None:
        """Count the results of tasks of a host queue; `move` must be called for them as well."""
        self._host_queues[host_queue][column] += count

    def credit(self, worker: int, *, completed: int = 0, failed: int = 0, items: int = 0) -> None:
        """Count the work of a worker."""
        counts = self._workers[worker]
        counts[0] += completed
        counts[1] += failed
        counts[2] += items

    def touch(self, host: int) -> None:
        """Remember a host whose leases or limits have changed."""
        self._hosts.add(host)

    def touch_host_queues(self, host_queues: Iterable[int]) -> None:
        """Remember host queues whose tasks were added and counted elsewhere."""
        self._touched_host_queues.update(host_queues)

    def write(self, store: Store) -> None:
        """Write the counters, and recompute when the host queues are due."""
        store.run_many(
            "count_host_queues", [(host_queue, *counts) for host_queue, counts in self._host_queues.items()]
        )
        store.run_many(
            "count_step_groups",
            [(step_group, *counts) for step_group, counts in self._sum_step_groups().items()],
        )
        store.run_many("count_workers", [(worker, *counts) for worker, counts in self._workers.items()])
        host_queues = self._touched_host_queues.union(self._host_queues)
        if host_queues or self._hosts:
            store.run("arm", host_queues=as_json(list(host_queues)), hosts=as_json(list(self._hosts)))

    def _sum_step_groups(self) -> dict[int, list[int]]:
        sums: defaultdict[int, list[int]] = defaultdict(lambda: [0] * len(CounterColumn))
        for host_queue, counts in self._host_queues.items():
            totals = sums[self._step_group_of[host_queue]]
            for column, count in enumerate(counts):
                totals[column] += count
        return sums
