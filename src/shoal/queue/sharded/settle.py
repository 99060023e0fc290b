"""Settlements: each outcome goes to the server that gave its lease, with parcels for the other servers."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from itertools import groupby
from typing import Any

from shoal.core.errors import PartlySettled, QueueError, QueueUnavailable
from shoal.core.lazy.dataclasses import dataclass
from shoal.core.model import Done, Fate, Outcome, RunSettings, Task
from shoal.queue.contract import Queue
from shoal.queue.intake import Intake, QueuedTask, encode_item
from shoal.queue.sharded.members import Member, Members, cancel, gather, wait_for_most
from shoal.queue.sharded.outbox import Outbox
from shoal.queue.sharded.parcels import check_step, parcels

SETTLE_TIMEOUT_SECONDS = 5.0  # a large settlement takes longer than a claim
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class _Part:
    """An outcome as its server gets it, and what it sends to other servers."""

    member: Member
    outcome: Outcome
    mail: Sequence[tuple[Member, Task]] = ()
    keys: frozenset[str] = frozenset()  # of its parcels
    follow: frozenset[bytes] = frozenset()  # the ids of all its follow-up tasks


class ShardedSettlements:
    """Settles outcomes on all servers at once.

    A server that does not reply keeps its call; the outcomes in it are not sent again, because the call may
    still succeed.
    """

    def __init__(self, members: Members, outbox: Outbox) -> None:
        self._members, self._outbox = members, outbox
        self._left: dict[Key, tuple[asyncio.Task[list[Fate]], int]] = {}

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        """Settle; raises PartlySettled if a server does not reply and another can be reached."""
        parts = self._parts(outcomes)
        first: dict[Key, int] = {}
        for position, outcome in enumerate(outcomes):
            first.setdefault(_key(outcome), position)
        fates: list[Fate | None] = [None] * len(outcomes)
        error: QueueError | None = None
        for positions in _groups(parts, list(first.values())):
            error = await self._settle_group(parts, positions, fates) or error
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
        foreign: dict[Member, list[QueuedTask]] = {}
        mail: list[tuple[Member, Task]] = []
        follow: set[bytes] = set()
        for task in outcome.follow:
            check_step(task)
            entry = intake.entry(task)
            follow.add(entry.id)
            owner = self._members.owner_of(entry)
            if owner is member:
                own.append(task)
            else:
                foreign.setdefault(owner, []).append(entry)
                mail.append((owner, task))
        if not mail:
            return _Part(member, outcome, follow=frozenset(follow))
        packed = list(parcels(lease, foreign.values()))
        keys = frozenset(parcel.key for parcel in packed if parcel.key)
        return _Part(member, replace(outcome, follow=[*own, *packed]), mail, keys, frozenset(follow))

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
        error = _error_in(tasks)
        await self._send(parts, positions, fates)
        return error

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
            task = asyncio.create_task(member.call(partial(_settle, outcomes)))
            calls |= {position: (task, place) for place, position in enumerate(chosen)}
        return calls

    async def _send(
        self, parts: Sequence[_Part], positions: Iterable[int], fates: Sequence[Fate | None]
    ) -> None:
        """Send the parcels of what was accepted."""
        mail: dict[tuple[str, Member], list[_Part]] = {}
        for position in positions:
            part = parts[position]
            if part.mail and fates[position] is Fate.ACCEPTED:
                mail.setdefault((part.outcome.lease.run_id, part.member), []).append(part)
        # A server that fails now keeps its parcels, and another claim sends them.
        with suppress(QueueError):
            await gather(
                self._outbox.send(
                    run_id,
                    origin,
                    [one for part in sent for one in part.mail],
                    frozenset().union(*(part.keys for part in sent)),
                )
                for (run_id, origin), sent in mail.items()
            )


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


def _settle(outcomes: Sequence[Outcome], queue: Queue) -> Coroutine[Any, Any, list[Fate]]:
    return queue.settle(outcomes)


def _key(outcome: Outcome) -> Key:
    return outcome.lease.task_id, outcome.lease.token
