"""Work on several servers: tasks in, leases out, outcomes back."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from shoal.core.errors import InvalidTask, QueueUnavailable
from shoal.core.model import (
    NOTHING,
    ZERO,
    Done,
    EnqueueReport,
    Fate,
    Grant,
    Lease,
    Outcome,
    RunSettings,
    Stats,
    Task,
)
from shoal.core.tasks import iterate
from shoal.queue.clocks import ServerClocks
from shoal.queue.contract import DEFAULT_LEASE, Fence, OnInvalid, Queue, Tasks, WorkerBeat, WorkQueue
from shoal.queue.intake import BATCH, Intake
from shoal.queue.rules import check_claim
from shoal.queue.sharded.base import ShardedBase
from shoal.queue.sharded.claim import ShardedClaim, ShardedClaimRequest, SurplusReleases
from shoal.queue.sharded.links.parcels import check_step
from shoal.queue.sharded.members import Member, Members, Replies, gather
from shoal.queue.sharded.settle import ShardedSettlements
from shoal.queue.sharded.stats import parcels_in


class ShardedWork(ShardedBase, WorkQueue):
    """Enqueues, claims and settles tasks."""

    def __init__(self, members: Members) -> None:
        super().__init__(members)
        self._settlements = ShardedSettlements(members, self._deliveries)
        self._clocks = ServerClocks()
        self._releases = SurplusReleases(members)

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        await self._find(run_id)
        await self._runs.servers.check(run_id)
        self._supply.forget()
        report = EnqueueReport()
        async for shares, invalid in self._shares(run_id, tasks, on_invalid):
            for some in shares.values():
                self._supply.add_priorities(run_id, (task.priority for task in some))
            added = await gather(
                self._runs.on(member, run_id, partial(_enqueue, run_id, some))
                for member, some in shares.items()
            )
            report = sum(added, report + EnqueueReport(invalid=invalid))
        return report

    async def _shares(
        self, run_id: str, tasks: Tasks, on_invalid: OnInvalid | None
    ) -> AsyncIterator[tuple[dict[Member, list[Task]], int]]:
        """Split a stream of tasks into batches by owner, each with the number of invalid tasks."""
        intake = Intake(run_id, RunSettings())
        shares: dict[Member, list[Task]] = {}
        size, invalid, position = 0, 0, -1
        async for task in iterate(tasks):
            position, size = position + 1, size + 1
            try:
                check_step(task)
                shares.setdefault(self._members.owner_of(intake.entry(task)), []).append(task)
            except InvalidTask as error:
                invalid += 1
                if on_invalid:
                    on_invalid(position, error)
            if size >= BATCH * len(self._members):
                yield shares, invalid
                shares, size, invalid = {}, 0, 0
        if size:
            yield shares, invalid

    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Sequence[str] | None = None,
        partitions: Sequence[str] | None = None,
        fence: Fence | None = None,
        lead: timedelta = ZERO,
    ) -> Grant:
        check_claim(limit, lease, fence, lead)
        await self._runs.servers.check(run_id)
        if fence is not None and not await self._holds(fence):
            await self._runs.find(run_id)
            return Grant(outdated=True)
        request = ShardedClaimRequest(worker_id, run_id, lease, steps, partitions, lead)
        # This claim may be for what waits for a server that has nothing else.
        short = [one for one in self._members if not self._supply.is_plentiful(request.filters, one)]
        if short:
            await self._deliveries.flush(run_id, short)
        grant = await self._claim(request, limit, fence)
        if grant is None:  # links have arrived
            grant = await self._claim(request, limit, fence)
        return Grant() if grant is None else grant

    async def _claim(self, request: ShardedClaimRequest, limit: int, fence: Fence | None) -> Grant | None:
        """Claim once; return None if nothing was left but links on their way, which have arrived now."""
        run_id = request.run_id
        claim = ShardedClaim(request, self._members, self._clocks, self._runs, self._releases, self._supply)
        try:
            leases = await claim.take(limit)
            # No stamp is used twice: a note that has it now has had it all the time.
            if fence is not None and not await self._holds(fence):
                claim.cancel()
                await self._releases.send()
                return Grant(outdated=True)
            if not leases and await self._have_links_arrived(run_id, claim):
                return None
            if await self._outbox.sweep(run_id):
                # Servers that missed a change of the run get it.
                await self._runs.repair(run_id)
            drained = not leases and claim.is_drained and await self._is_drained(run_id)
        except BaseException:
            claim.cancel()
            raise
        return claim.grant(leases, drained=drained)

    async def _have_links_arrived(self, run_id: str, claim: ShardedClaim) -> bool:
        """Deliver and complete what may be all that is left; return whether there was any."""
        has_sent = await self._deliveries.flush(run_id)
        has_found = await self._outbox.empty(run_id, claim.unfinished, claim.waiting_for_parcels)
        return has_sent or has_found

    async def _holds(self, fence: Fence) -> bool:
        topic, key, stamp = fence
        found = (await self._members.home.call(lambda queue: queue.notes(topic, [key]))).get(key)
        return found is not None and found.stamp == stamp

    async def _is_drained(self, run_id: str) -> bool:
        """Return whether no server has a task or a parcel left.

        A parcel may have moved from a server not yet read to one that was: so all are read twice, and nothing
        may have entered any of them in between.
        """
        if (await self._runs.find(run_id)).state.has_ended:
            return True
        before = await self._raw_stats(run_id)
        for member, stats in zip(self._members, before, strict=True):
            if parcels_in(stats).dead:
                await self._outbox.rescue(run_id, member)
        after = await self._raw_stats(run_id)
        return [one.tasks for one in before] == [one.tasks for one in after] and not any(
            one.remaining for one in (*before, *after)
        )

    async def _raw_stats(self, run_id: str) -> list[Stats]:
        return await gather(
            self._runs.on(member, run_id, lambda queue: queue.stats(run_id)) for member in self._members
        )

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        for outcome in outcomes:
            if isinstance(outcome, Done) and outcome.follow:
                self._supply.add_priorities(outcome.lease.run_id, (task.priority for task in outcome.follow))
        return await self._settlements.settle(outcomes)

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        places: dict[Member, list[int]] = {}
        for place, held in enumerate(leases):
            places.setdefault(self._members.owner_of_task(held.task), []).append(place)
        calls = {
            member: partial(_extend, [leases[place] for place in chosen], lease)
            for member, chosen in places.items()
        }
        fates = [Fate.STALE] * len(leases)
        if not calls:
            return fates
        replies = _complete(await self._members.call_reachable(calls))
        for member, found in replies.items():
            for place, fate in zip(places[member], found, strict=True):
                fates[place] = fate
        return fates

    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        check_claim(1, lease)
        return await self._count(lambda queue: queue.extend_worker(worker_id, lease=lease))

    async def reclaim(self) -> int:
        # A server that is away is reclaimed when it is back.
        replies = await self._members.call_reachable(dict.fromkeys(self._members, _reclaim))
        return sum(replies.given.values())

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        return await self._count(lambda queue: queue.abandon(worker_id, once=once, reason=reason))

    async def _count(self, verb: Any) -> int:
        """Add what a verb returns; raises QueueUnavailable after the other servers have done it."""
        return sum(_complete(await self._members.call_reachable(dict.fromkeys(self._members, verb))).values())

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        await self.beat_together(run_id, [WorkerBeat(worker_id, state, info)])

    async def beat_together(self, run_id: str, beats: Sequence[WorkerBeat]) -> None:
        # On every server, because each counts what the workers settle there.
        async def beat(queue: Queue) -> None:
            await queue.beat_together(run_id, beats)

        await self._members.call_reachable(
            {member: self._runs.giving(run_id, beat) for member in self._members}
        )


def _complete(replies: Replies[Any]) -> Mapping[Member, Any]:
    """Return the replies of all servers; raises QueueUnavailable if one is missing."""
    if replies.missing:
        missing = replies.missing[0].name
        raise replies.error or QueueUnavailable(missing, "it does not respond")
    return replies.given


async def _enqueue(run_id: str, tasks: Sequence[Task], queue: Queue) -> EnqueueReport:
    return await queue.enqueue(run_id, tasks)


async def _extend(leases: Sequence[Lease], lease: timedelta, queue: Queue) -> list[Fate]:
    return await queue.extend(leases, lease=lease)


async def _reclaim(queue: Queue) -> int:
    return await queue.reclaim()
