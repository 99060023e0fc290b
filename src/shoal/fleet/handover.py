"""From one plan to the next: who is there now, what waits, and which partitions may change hands."""

from collections.abc import Collection, Mapping

import msgspec

from shoal.core.model import Counts
from shoal.fleet.plan import assigned, helping
from shoal.worker.share import Holding, Plan


def renewed(before: Plan, members: Collection[str], counts: Mapping[str, Counts], age: float) -> Plan:
    """Return the plan that should follow one written `age` seconds ago.

    In exclusive mode `counts` must have been read while `before` stood: what nobody may claim by it, and
    nobody holds, is free. What somebody may claim is first taken from him, and given by the plan after that.
    """
    seats = seated(before.seats, members)
    workers = [worker for worker in seats if worker]
    if not workers:
        return Plan(exclusive=before.exclusive, homes=before.homes)
    weights = {name: found.pending + found.delayed for name, found in counts.items()}
    held = {name: holding.coming or _first(holding) for name, holding in before.holdings.items()}
    homes = {name: seats[number - 1] for name, number in before.homes.items() if _is_manned(seats, number)}
    wanted = assigned(weights, workers, held, homes)
    helpers = {} if before.exclusive else helping(weights, workers, wanted, _helped(before))
    holdings = {}
    for name, worker in wanted.items():
        old = before.holdings.get(name, Holding())
        team = [worker, *(helper for helper, helped in helpers.items() if helped == name)]
        waits = before.exclusive and bool(old.workers or counts[name].leased)
        holdings[name] = _holding(old, team, age, waits=waits)
    return Plan(exclusive=before.exclusive, seats=seats, homes=before.homes, holdings=holdings)


def is_same(one: Plan, other: Plan) -> bool:
    """Tell whether two plans say the same of everyone, whatever the time."""
    return _said(one) == _said(other)


def seated(seats: Collection[str], members: Collection[str]) -> list[str]:
    """Give each newcomer the first free place, and nobody another than he has."""
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


def _helped(plan: Plan) -> dict[str, str]:
    return {worker: name for name, holding in plan.holdings.items() for worker in holding.workers[1:]}


def _is_manned(seats: list[str], number: int) -> bool:
    return number <= len(seats) and bool(seats[number - 1])


def _said(plan: Plan) -> Plan:
    timeless = {name: Holding(held.workers, held.coming) for name, held in plan.holdings.items()}
    return msgspec.structs.replace(plan, holdings=timeless)
