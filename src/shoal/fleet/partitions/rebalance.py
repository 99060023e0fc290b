"""Computes the next partition plan: from the members, the waiting tasks and the partitions that may move."""

from collections.abc import Collection, Mapping

import msgspec

from shoal.core.model import Counts
from shoal.fleet.partitions.assign import assign, assign_helpers
from shoal.worker.partitions import Holding, PartitionPlan


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
