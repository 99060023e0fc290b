"""Claims: one server is asked in its turn, or all for their shares; what is missing comes from the others."""

import asyncio
import random
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from shoal.core.model import ZERO, Fate, Grant, Lease, Release
from shoal.queue.clocks import ServerClocks, shift_lease
from shoal.queue.contract import Queue
from shoal.queue.sharded.members import Member, Members
from shoal.queue.sharded.runs import ShardedRuns
from shoal.queue.sharded.supply import Filters, ServerSupply

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
NO_GRANT = Grant()


@dataclass(frozen=True, slots=True)
class ShardedClaimRequest:
    """The arguments of a claim, but for its limit."""

    worker_id: str
    run_id: str
    lease: timedelta
    steps: Sequence[str] | None
    partitions: Sequence[str] | None
    lead: timedelta = ZERO

    @property
    def filters(self) -> Filters:
        """What decides which tasks it may get."""
        names = (self.steps, self.partitions)
        return (self.run_id, *(one if one is None else tuple(one) for one in names))

    def on(self, limit: int, queue: Queue) -> Coroutine[Any, Any, Grant]:
        """Claim from one server."""
        return queue.claim(
            self.worker_id,
            run_id=self.run_id,
            limit=limit,
            lease=self.lease,
            steps=self.steps,
            partitions=self.partitions,
            lead=self.lead,
        )


@dataclass(slots=True)
class _Share:
    """What one server has given to a claim."""

    grant: Grant = NO_GRANT
    first_at: datetime | None = None  # when it replied first, by its clock
    leases: list[Lease] = field(default_factory=list)
    has_more: bool = True  # it gave all that it was asked for

    @property
    def lowest(self) -> int:
        """The priority that none of what it has left exceeds."""
        return min((lease.task.priority for lease in self.leases), default=9)


class SurplusReleases:
    """Releases leases that claims took and do not use.

    What a server does not confirm is sent again with the next claim: otherwise its tasks would wait until
    their leases expire. A lease that was released before stays as it is.
    """

    def __init__(self, members: Members) -> None:
        self._members = members
        self._waiting: dict[Member, list[Lease]] = {}

    def add(self, giver: Member, lease: Lease) -> None:
        """Note a lease for the next `send`."""
        self._waiting.setdefault(giver, []).append(lease)

    async def send_to(self, member: Member, queue: Queue) -> None:
        """Release what one server gave, as soon as it replies."""
        leases = self._waiting.pop(member, [])
        try:
            await _release(leases, queue)
        except BaseException:
            self._waiting.setdefault(member, []).extend(leases)
            raise

    async def send(self) -> None:
        """Release what can be released now."""
        sent, self._waiting = self._waiting, {}
        if not sent:
            return
        confirmed: Collection[Member] = ()
        calls = {member: partial(_release, leases) for member, leases in sent.items()}
        try:
            confirmed = (await self._members.call_reachable(calls, optional=True)).given
        finally:
            for member in sent.keys() - confirmed:
                self._waiting.setdefault(member, []).extend(sent[member])


class ShardedClaim:
    """One claim on all servers."""

    def __init__(
        self,
        request: ShardedClaimRequest,
        members: Members,
        clocks: ServerClocks,
        runs: ShardedRuns,
        releases: SurplusReleases,
        supply: ServerSupply,
    ) -> None:
        self._request, self._members, self._clocks, self._runs = request, members, clocks, runs
        self._releases, self._supply = releases, supply
        self._shares: dict[Member, _Share] = {}
        self._unasked: list[Member] = []
        self._has_asked_next = False
        self._are_in_turn = False
        self._has_surplus = False
        self._givers: dict[tuple[int, str], Member] = {}
        self._first: float | None = None  # when the first tasks were leased, by our clock
        self._giver: Member | None = None  # of those
        self.missing: set[Member] = set()  # servers that did not reply

    async def take(self, limit: int) -> list[Lease]:
        """Return up to `limit` leases, the highest priorities of all servers first."""
        ready = [member for member in self._members if not member.stalled] or list(self._members)
        self.missing.update(member for member in self._members if member not in ready)
        order = self._supply.plan(self._request.filters, ready, limit)
        self._unasked, self._are_in_turn = list(order.then), bool(order.then)
        await self._ask_until_enough(dict(order.first), limit)
        if self._are_in_turn and self.missing.issuperset(ready):
            # None replied in its turn: whichever replies first is used.
            self._are_in_turn = False
            self.missing.difference_update(ready)
            self._shares.clear()
            await self._ask_until_enough(dict.fromkeys(ready, -(-limit // len(ready))), limit)
        leases = self._in_turns()
        for lease in leases[limit:]:
            self._give_back(lease)
        self._has_surplus = bool(leases[limit:])
        await self._releases.send()
        return leases[:limit]

    async def _ask_until_enough(self, wanted: dict[Member, int], limit: int) -> None:
        while wanted:
            await self._ask(wanted)
            wanted = self._wanted(limit)

    def cancel(self) -> None:
        """Return all leases as if they had never been claimed; they are sent with the next claim."""
        for lease in self._all():
            self._give_back(lease)

    def _give_back(self, lease: Lease) -> None:
        if giver := self._givers.pop((lease.token, lease.task_id), None):
            self._releases.add(giver, lease)

    def grant(self, leases: Sequence[Lease], *, drained: bool) -> Grant:
        """Return the grant with these leases."""
        grants = [share.grant for share in self._shares.values()]
        dues = [grant.next_due for grant in grants if grant.next_due is not None]
        return Grant(
            leases=leases,
            next_due=ZERO if self._has_surplus else min(dues, default=None),
            drained=drained,
            claimed_at=self._claimed_at(),
        )

    @property
    def is_drained(self) -> bool:
        """Whether every server replied, and none had a task left."""
        return not self.missing and all(share.grant.drained for share in self._shares.values())

    @property
    def unfinished(self) -> list[Member]:
        """The servers that replied and have something left, which may be parcels."""
        return [
            member
            for member, share in self._shares.items()
            if member not in self.missing and not share.grant.drained
        ]

    @property
    def waiting_for_parcels(self) -> list[Member]:
        """Those of them that will have nothing to claim: all that they have left may be parcels."""
        return [member for member in self.unfinished if self._shares[member].grant.next_due is None]

    def _claimed_at(self) -> datetime | None:
        """Return when the first tasks were leased, by the clock of the home."""
        by_first = sorted(self._shares, key=lambda member: (member is not self._giver, member.number))
        for member in by_first:
            at = self._shares[member].first_at
            if at is not None:
                behind = self._clocks.difference(member.number, self._members.home.number)
                return at + timedelta(seconds=behind)
        return None

    def _all(self) -> list[Lease]:
        return [lease for share in self._shares.values() for lease in share.leases]

    def _in_turns(self) -> list[Lease]:
        """Return the leases by falling priority; within one priority the servers take turns."""
        shares = random.sample(list(self._shares.values()), len(self._shares))
        numbered = [
            (-lease.task.priority, place, turn, lease)
            for turn, share in enumerate(shares)
            for place, lease in enumerate(sorted(share.leases, key=lambda one: -one.task.priority))
        ]
        return [lease for *_, lease in sorted(numbered, key=lambda row: row[:3])]

    def _wanted(self, limit: int) -> dict[Member, int]:
        """Return how many more tasks to ask which servers for."""
        missing = limit - len(self._all())
        if missing > 0 and self._unasked:
            # The next in turn is asked for all of it; if that is not enough, the others at once.
            count, self._has_asked_next = len(self._unasked) if self._has_asked_next else 1, True
            asked, self._unasked = self._unasked[:count], self._unasked[count:]
            return dict.fromkeys(asked, -(-missing // count))
        more = [member for member, share in self._shares.items() if share.has_more]
        if missing > 0 and more:
            return dict.fromkeys(more, -(-missing // len(more)))
        # A server that may have tasks of a higher priority than some of those in hand.
        for member in more:
            lowest = self._shares[member].lowest
            if lower := sum(lease.task.priority < lowest for lease in self._all()):
                return {member: lower}
        return {}

    async def _ask(self, wanted: dict[Member, int]) -> None:
        calls = {member: self._call(member, limit) for member, limit in wanted.items()}
        # What others gave before, or may give, can be used if these do not reply.
        optional = bool(self._givers) or self._are_in_turn
        replies = await self._members.call_reachable(calls, optional=optional)
        for member in replies.missing:
            self.missing.add(member)
            self._shares.setdefault(member, _Share()).has_more = False
        # The grant counts from its earliest lease, so that no start of another server lies before it.
        for member, (grant, at) in sorted(replies.given.items(), key=lambda reply: reply[1][1]):
            share = self._shares.setdefault(member, _Share())
            share.grant = grant
            share.first_at = share.first_at or grant.claimed_at
            share.has_more = len(grant.leases) == wanted[member]
            for lease in grant.leases:
                self._givers[lease.token, lease.task_id] = member
            share.leases += self._shift_to_first(member, grant.leases, at)
            priorities = [lease.task.priority for lease in grant.leases]
            self._supply.record(self._request.filters, member, priorities, wanted[member])

    def _shift_to_first(self, giver: Member, leases: Sequence[Lease], at: float) -> Sequence[Lease]:
        """Count the durations of leases from the first lease of the grant."""
        if leases and self._first is None:
            self._first, self._giver = at, giver
            self._shares[giver].first_at = self._shares[giver].grant.claimed_at
        if not leases or self._first is None or at <= self._first:
            return leases
        later = timedelta(seconds=at - self._first)
        return [shift_lease(lease, later) for lease in leases]

    def _call(
        self, member: Member, limit: int
    ) -> Callable[[Queue], Coroutine[Any, Any, tuple[Grant, float]]]:
        async def claim(queue: Queue) -> tuple[Grant, float]:
            loop = asyncio.get_running_loop()
            sent_at = loop.time()
            grant = await self._runs.giving(self._request.run_id, partial(self._request.on, limit))(queue)
            if asyncio.current_task() in member.stalled:
                # Nobody waits for these leases any more.
                for lease in grant.leases:
                    self._releases.add(member, lease)
                await self._releases.send_to(member, queue)
            received_at, at = loop.time(), loop.time()
            if grant.claimed_at is not None:
                micros = (grant.claimed_at - EPOCH) // MICROSECOND
                at = self._clocks.local(member.number, micros, sent_at, received_at)
            return grant, at

        return claim


def _release(leases: Sequence[Lease], queue: Queue) -> Coroutine[Any, Any, list[Fate]]:
    return queue.settle([Release(lease, asked=False) for lease in leases])
