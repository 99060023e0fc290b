"""The partition plan of a run: which worker serves which partition, balanced by the waiting tasks.

A partition moves only when its worker is gone, or when another worker is idle.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter

import msgspec

from shoal.core.model import Counts
from shoal.worker.partitions import Holding, PartitionPlan

Weights = Mapping[str, int]  # waiting tasks of each partition
Assignment = dict[str, str]  # partition to worker


def assign(
    weights: Weights,
    workers: Sequence[str],
    current: Mapping[str, str],
    homes: Mapping[str, str] | None = None,
) -> Assignment:
    """Assign every partition to one of the workers; there must be at least one.

    `current` is the assignment so far. `homes` are fixed assignments of a table, for present workers.
    """
    homes = homes or {}
    loads = _PartitionLoads(weights, workers, homes.keys())
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


def assign_helpers(
    weights: Weights, workers: Sequence[str], assignment: Assignment, before: Mapping[str, str]
) -> dict[str, str]:
    """Let idle workers share the largest partitions.

    They stay with the partition they helped `before` while it has work.
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


class _PartitionLoads:
    """The partitions and load of each worker; `fixed` partitions are never moved."""

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
        """Assign a partition to a worker, and take it from its current one."""
        if owner := self.assignment.get(name):
            self._count_in(name, owner, -1)
        self.assignment[name] = worker
        self._count_in(name, worker, 1)

    def least(self) -> str:
        """Return the worker with the lowest load; of equals the one with the fewest partitions."""
        return min(self.workers, key=lambda worker: (self.load[worker], self._count[worker]))

    def idle(self) -> list[str]:
        """Return the workers without load."""
        return [worker for worker in self.workers if not self.load[worker]]

    def relieve(self, idle: Sequence[str]) -> None:
        """Move partitions from the busiest to idle workers, the least loaded first, while that helps."""
        while idle:
            worker = min(idle, key=self.load.__getitem__)
            moved = self._choose_partition_for(worker)
            if moved is None:
                return
            self.give(moved, worker)

    def _choose_partition_for(self, taker: str) -> str | None:
        """Return the largest partition that fits the fair share, else the smallest one that helps."""
        capacity = self.fair - self.load[taker]
        for donor in sorted(self.workers, key=self.load.__getitem__, reverse=True):
            # A move helps if the taker then has less load than the donor had.
            movable = self._movable[donor]
            helping = bisect_left(movable, (self.load[donor] - self.load[taker],))
            if not helping or self._live[donor] < 2:  # a worker keeps its last partition with work
                continue
            fitting = bisect_right(movable, capacity, hi=helping, key=itemgetter(0))
            return movable[max(fitting - 1, 0)][1]
        return None

    def _count_in(self, name: str, worker: str, sign: int) -> None:
        weight, movable = self._weights[name], self._movable[worker]
        self.load[worker] += sign * weight
        self._count[worker] += sign
        self._live[worker] += sign * bool(weight)
        if weight and name not in self._fixed:
            index = bisect_left(movable, (weight, name))
            movable[index : index + (sign < 0)] = [(weight, name)] if sign > 0 else []


def next_plan(
    before: PartitionPlan, members: Collection[str], counts: Mapping[str, Counts], age: float
) -> PartitionPlan:
    """Return the plan that should follow one written `age` seconds ago.

    In exclusive mode `counts` must have been read while `before` was valid: a partition that no worker may
    claim by it, and without leases, is free. Any other is first taken from its worker, and given by the plan
    after that.
    """
    seats = assign_seats(before.seats, members)
    workers = [worker for worker in seats if worker]
    if not workers:
        return PartitionPlan(exclusive=before.exclusive, homes=before.homes)
    weights = {name: found.pending + found.delayed for name, found in counts.items()}
    held = {name: holding.coming or _first(holding) for name, holding in before.holdings.items()}
    homes = {name: seats[number - 1] for name, number in before.homes.items() if _is_taken(seats, number)}
    wanted = assign(weights, workers, held, homes)
    helpers = {} if before.exclusive else assign_helpers(weights, workers, wanted, _helpers(before))
    holdings = {}
    for name, worker in wanted.items():
        old = before.holdings.get(name, Holding())
        team = [worker, *(helper for helper, helped in helpers.items() if helped == name)]
        waits = before.exclusive and bool(old.workers or counts[name].leased)
        holdings[name] = _holding(old, team, age, waits=waits)
    return PartitionPlan(exclusive=before.exclusive, seats=seats, homes=before.homes, holdings=holdings)


def is_same(one: PartitionPlan, other: PartitionPlan) -> bool:
    """Return whether two plans are equal apart from their times."""
    return _without_times(one) == _without_times(other)


def assign_seats(seats: Collection[str], members: Collection[str]) -> list[str]:
    """Give each new member the first free seat; the others keep theirs."""
    newcomers = iter(sorted(set(members) - set(seats)))
    found = [seat if seat in members else next(newcomers, "") for seat in seats]
    found += newcomers
    while found and not found[-1]:
        found.pop()
    return found


def _holding(old: Holding, team: list[str], age: float, *, waits: bool) -> Holding:
    if old.workers == team:
        return Holding(team, held=old.held + age)
    if waits:
        return Holding(coming=team[0], held=old.held + age if old.coming == team[0] else 0.0)
    return Holding(team)


def _first(holding: Holding) -> str:
    return holding.workers[0] if holding.workers else ""


def _helpers(plan: PartitionPlan) -> dict[str, str]:
    return {worker: name for name, holding in plan.holdings.items() for worker in holding.workers[1:]}


def _is_taken(seats: list[str], number: int) -> bool:
    return number <= len(seats) and bool(seats[number - 1])


def _without_times(plan: PartitionPlan) -> PartitionPlan:
    timeless = {name: Holding(held.workers, held.coming) for name, held in plan.holdings.items()}
    return msgspec.structs.replace(plan, holdings=timeless)
