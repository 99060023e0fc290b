"""Settlements: each outcome goes to the server that gave its lease, with parcels for the other servers."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any

from msgspec.structs import replace

from shoal.core.errors import PartlySettled, QueueError, QueueUnavailable
from shoal.core.model import Done, Fate, Outcome, RunSettings, Task
from shoal.queue.contract import Queue
from shoal.queue.intake import Intake, QueuedTask, encode_item
from shoal.queue.sharded.links.deliveries import Deliveries, Place, Posted
from shoal.queue.sharded.links.parcels import OutgoingParcel, check_step, pack
from shoal.queue.sharded.members import Member, Members, cancel, wait_for_most

SETTLE_TIMEOUT_SECONDS = 5.0  # a large settlement takes longer than a claim
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Part:
    """An outcome as its server gets it, and what it sends to other servers."""

    member: Member
    outcome: Outcome
    parcels: Sequence[OutgoingParcel] = ()
    follow: frozenset[bytes] = frozenset()  # the ids of all its follow-up tasks


class ShardedSettlements:
    """Settles outcomes on all servers at once.

    A server that does not reply keeps its call; the outcomes in it are not sent again, because the call may
    still succeed.
    """

    def __init__(self, members: Members, deliveries: Deliveries) -> None:
        self._members, self._deliveries = members, deliveries
        self._left: dict[Key, tuple[asyncio.Task[list[Fate]], int]] = {}

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        """Settle; raises PartlySettled if a server does not reply and another can be reached."""
        parts = self._parts(outcomes)
        first: dict[Key, int] = {}
        for position, outcome in enumerate(outcomes):
            first.setdefault(_key(outcome), position)
        fates: list[Fate | None] = [None] * len(outcomes)
        error: QueueError | None = None
        await self._deliver_same_keys(parts)
        groups = list(_groups(parts, list(first.values())))
        for positions in groups:
            error = await self._settle_group(parts, positions, fates) or error
            await self._deliver(parts, positions, fates, is_last=positions is groups[-1])
        if error is not None:
            if not any(fates) and all(member.is_away for member in self._members):
                raise error
            place = getattr(error, "address", "one of its servers")
            raise PartlySettled(place, getattr(error, "reason", str(error)), fates) from error
        return [fate or Fate.STALE for fate in fates]  # of two outcomes for a lease, the second is STALE

    async def close(self) -> None:
        """End the calls that nobody waits for."""
        await cancel({task for task, _ in self._left.values()})

    def _parts(self, outcomes: Sequence[Outcome]) -> list[_Part]:
        """Prepare all outcomes before the first is settled; raises InvalidItem or InvalidTask."""
        intakes: dict[str, Intake] = {}
        parts = [self._part(outcome, intakes) for outcome in outcomes]
        if len({part.member for part in parts}) > 1:
            for outcome in outcomes:
                if isinstance(outcome, Done):
                    for data in (*outcome.items, *(reject.data for reject in outcome.rejects)):
                        encode_item(data)
        return parts

    def _part(self, outcome: Outcome, intakes: dict[str, Intake]) -> _Part:
        lease = outcome.lease
        member = self._members.owner_of_task(lease.task)
        if not isinstance(outcome, Done) or not outcome.follow:
            return _Part(member, outcome)
        intake = intakes.get(lease.run_id) or intakes.setdefault(
            lease.run_id, Intake(lease.run_id, RunSettings())
        )
        own: list[Task] = []
        foreign: dict[Member, list[tuple[Task, QueuedTask]]] = {}
        follow: set[bytes] = set()
        for task in outcome.follow:
            check_step(task)
            entry = intake.entry(task)
            follow.add(entry.id)
            owner = self._members.owner_of(entry)
            if owner is member:
                own.append(task)
            else:
                foreign.setdefault(owner, []).append((task, entry))
        if not foreign:
            return _Part(member, outcome, follow=frozenset(follow))
        parcels = list(pack(lease, foreign))
        carriers = [parcel.carrier for parcel in parcels]
        return _Part(member, replace(outcome, follow=[*own, *carriers]), parcels, frozenset(follow))

    async def _settle_group(
        self, parts: Sequence[_Part], positions: Sequence[int], fates: list[Fate | None]
    ) -> QueueError | None:
        """Settle some outcomes on their servers at once; return the error of a server that did not."""
        calls = self._start(parts, positions)
        tasks = {task: parts[position].member for position, (task, _) in calls.items()}
        try:
            await wait_for_most(tasks, may_fail=True, stall=SETTLE_TIMEOUT_SECONDS)
        except BaseException:
            await cancel(tasks)
            raise
        for position, (task, place) in calls.items():
            if not task.done():
                self._left[_key(parts[position].outcome)] = task, place
            elif task.exception() is None:
                fates[position] = task.result()[place]
        return _error_in(tasks)

    def _start(
        self, parts: Sequence[_Part], positions: Sequence[int]
    ) -> dict[int, tuple[asyncio.Task[list[Fate]], int]]:
        """Start a call for each server, or find the one that an outcome was left in."""
        calls: dict[int, tuple[asyncio.Task[list[Fate]], int]] = {}
        fresh: dict[Member, list[int]] = {}
        for position in positions:
            part = parts[position]
            if found := self._left.pop(_key(part.outcome), None):
                calls[position] = found
            else:
                fresh.setdefault(part.member, []).append(position)
        for member, chosen in fresh.items():
            outcomes = [parts[position].outcome for position in chosen]
            task = asyncio.create_task(self._call(member, outcomes))
            calls |= {position: (task, place) for place, position in enumerate(chosen)}
        return calls

    async def _call(self, member: Member, outcomes: list[Outcome]) -> list[Fate]:
        """Settle on one server; a page of each run brings the tasks that wait for this server."""
        cargo: dict[int, tuple[Place, Sequence[Posted]]] = {}
        for run_id, position in _first_pages(outcomes).items():
            place = Place(run_id, member)
            if posted := self._deliveries.take(place):
                cargo[position] = place, posted
                outcomes[position] = _with_tasks(outcomes[position], posted)
        try:
            fates = await member.call(partial(_settle, outcomes))
        except BaseException:
            for place, posted in cargo.values():
                self._deliveries.put_back(place, posted, is_refused=True)
            raise
        for position, (place, posted) in cargo.items():
            if fates[position] is Fate.ACCEPTED:
                self._deliveries.arrived(place, posted)
            else:
                self._deliveries.put_back(place, posted, is_refused=False)
        return fates

    async def _deliver(
        self,
        parts: Sequence[_Part],
        positions: Iterable[int],
        fates: Sequence[Fate | None],
        *,
        is_last: bool,
    ) -> None:
        """Deliver the parcels of what was accepted, at once if another group of outcomes follows."""
        runs: set[str] = set()
        for position in positions:
            part, run_id = parts[position], parts[position].outcome.lease.run_id
            if part.parcels and fates[position] is Fate.ACCEPTED:
                runs.add(run_id)
                self._deliveries.add(run_id, part.member, part.parcels)
        for run_id in runs:
            if not is_last or self._deliveries.is_urgent(run_id):
                await self._deliveries.flush(run_id)

    async def _deliver_same_keys(self, parts: Sequence[_Part]) -> None:
        """Deliver what waits if one of these outcomes queues the same key: the first must win."""
        follow: dict[str, set[bytes]] = {}
        for part in parts:
            if part.follow:
                follow.setdefault(part.outcome.lease.run_id, set()).update(part.follow)
        for run_id, ids in follow.items():
            if self._deliveries.holds_any(run_id, ids):
                await self._deliveries.flush(run_id)


def _error_in(calls: Mapping[asyncio.Task[list[Fate]], Member]) -> QueueError | None:
    """Return the error of a call that failed or is still under way; raises one that is no QueueError."""
    found: QueueError | None = None
    for task, member in calls.items():
        if not task.done():
            member.is_away = True
            found = found or QueueUnavailable(member.name, "it does not respond")
        elif isinstance(error := task.exception(), QueueError):
            found = error
        elif error is not None:
            raise error
    return found


def _groups(parts: Sequence[_Part], positions: Sequence[int]) -> Iterator[list[int]]:
    """Yield the positions to settle at once.

    All, unless two servers queue the same key: then one after the other, because the first must win.
    """
    seen: dict[bytes, Member] = {}
    chosen = (parts[position] for position in positions)
    if not any(
        seen.setdefault(one, part.member) is not part.member for part in chosen for one in part.follow
    ):
        yield list(positions)
        return
    for _, group in groupby(positions, key=lambda position: parts[position].member):
        yield list(group)


def _first_pages(outcomes: Sequence[Outcome]) -> dict[str, int]:
    """Return the position of the first completed page of each run."""
    found: dict[str, int] = {}
    for position, outcome in enumerate(outcomes):
        if isinstance(outcome, Done):
            found.setdefault(outcome.lease.run_id, position)
    return found


def _with_tasks(outcome: Outcome, posted: Sequence[Posted]) -> Outcome:
    assert isinstance(outcome, Done)
    return replace(outcome, follow=[*outcome.follow, *(task for _, one in posted for task in one.tasks)])


def _settle(outcomes: Sequence[Outcome], queue: Queue) -> Coroutine[Any, Any, list[Fate]]:
    return queue.settle(outcomes)


def _key(outcome: Outcome) -> Key:
    return outcome.lease.task_id, outcome.lease.token
