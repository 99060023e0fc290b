"""Who serves which partition: balanced by the work that waits, and moving as little as possible.

A partition leaves its worker only when that worker is gone, or when another one has nothing to do.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

Weights = Mapping[str, int]  # tasks of a partition that wait
Assignment = dict[str, str]  # partition to worker


def assigned(
    weights: Weights,
    workers: Sequence[str],
    current: Mapping[str, str],
    homes: Mapping[str, str] | None = None,
) -> Assignment:
    """Give every partition to one of the workers, of whom there is at least one.

    `current` is who has them now. `homes` are those of a written table whose worker is there: they go home.
    """
    homes = homes or {}
    loads = _Loads(weights, workers, homes.keys())
    present = set(workers)
    kept = {name: homes.get(name, current.get(name, "")) for name in weights}
    for name, worker in kept.items():
        if worker in present:
            loads.give(name, worker)
    idle = loads.idle()
    orphans = [name for name, worker in kept.items() if worker not in present]
    for name in sorted(orphans, key=lambda name: (-weights[name], name)):
        loads.give(name, loads.least())
    loads.relieve(idle)
    return loads.assignment


def helping(
    weights: Weights, workers: Sequence[str], assignment: Assignment, before: Mapping[str, str]
) -> dict[str, str]:
    """Let workers that have nothing to do share the largest partitions.

    While there is work where they helped `before`, they stay there.
    """
    busy = {worker for name, worker in assignment.items() if weights[name]}
    servers = {name: 1 for name, weight in weights.items() if weight}
    helpers = {
        worker: before[worker]
        for worker in workers
        if worker not in busy and before.get(worker) in servers and assignment[before[worker]] != worker
    }
    for name in helpers.values():
        servers[name] += 1
    for worker in workers:
        if servers and worker not in busy and worker not in helpers:
            name = max(servers, key=lambda name: (weights[name] / (servers[name] + 1), name))
            servers[name] += 1
            helpers[worker] = name
    return helpers


class _Loads:
    """What each worker has, and how much that is; `fixed` are partitions that nobody gives away."""

    def __init__(self, weights: Weights, workers: Sequence[str], fixed: Collection[str]) -> None:
        self.workers, self.assignment = workers, Assignment()
        self.load = dict.fromkeys(workers, 0)
        self.fair = sum(weights.values()) / len(workers)
        self._weights, self._fixed = weights, fixed
        self._count = dict.fromkeys(workers, 0)  # of partitions
        self._live = dict.fromkeys(workers, 0)  # of those, with work in them
        self._movable: dict[str, list[tuple[int, str]]] = {
            worker: [] for worker in workers
        }  # the lightest first

    def give(self, name: str, worker: str) -> None:
        """Hand a partition to a worker, from whoever has it."""
        if owner := self.assignment.get(name):
            self._count_in(name, owner, -1)
        self.assignment[name] = worker
        self._count_in(name, worker, 1)

    def least(self) -> str:
        """Return the worker with the least to do, and of those the one with the fewest partitions."""
        return min(self.workers, key=lambda worker: (self.load[worker], self._count[worker]))

    def idle(self) -> list[str]:
        """Return the workers that have nothing to do."""
        return [worker for worker in self.workers if not self.load[worker]]

    def relieve(self, idle: Sequence[str]) -> None:
        """Give the idle partitions of the busiest, to the neediest first, for as long as that helps."""
        while idle:
            worker = min(idle, key=self.load.__getitem__)
            gift = self._gift(worker)
            if gift is None:
                return
            self.give(gift, worker)

    def _gift(self, taker: str) -> str | None:
        """Return the largest partition that fits into a fair share, else the smallest one that helps."""
        room = self.fair - self.load[taker]
        for donor in sorted(self.workers, key=self.load.__getitem__, reverse=True):
            # It helps if the taker then has less than the donor had.
            gifts = self._movable[donor]
            helping = bisect_left(gifts, (self.load[donor] - self.load[taker],))
            if not helping or self._live[donor] < 2:  # nobody gives away the last thing that he has to do
                continue
            fitting = bisect_right(gifts, room, hi=helping, key=itemgetter(0))
            return gifts[max(fitting - 1, 0)][1]
        return None

    def _count_in(self, name: str, worker: str, sign: int) -> None:
        weight, gifts = self._weights[name], self._movable[worker]
        self.load[worker] += sign * weight
        self._count[worker] += sign
        self._live[worker] += sign * bool(weight)
        if weight and name not in self._fixed:
            place = bisect_left(gifts, (weight, name))
            gifts[place : place + (sign < 0)] = [(weight, name)] if sign > 0 else []
