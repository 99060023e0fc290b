"""The outbox of each server: parcels that it has accepted, and that belong to another server.

The process that settles a page delivers its parcels soon after (see deliveries.py), and completes them many
at a time. What is left because a process died or a server was away is delivered by any process that claims
from the run. A parcel is completed after its tasks have been enqueued, and a server enqueues a key once, so a
parcel that is delivered twice changes nothing.
"""

import asyncio
from collections.abc import Collection, Iterable, Sequence

from shoal.core.errors import QueueError
from shoal.core.model import (
    OUTBOX_STEP,
    SECOND,
    DeadFilter,
    Done,
    Lease,
    Outcome,
    Release,
    RunSettings,
    RunState,
    Task,
)
from shoal.queue.intake import Intake
from shoal.queue.sharded.links.deliveries import Deliveries, Place
from shoal.queue.sharded.links.parcels import unpack
from shoal.queue.sharded.members import Member, Members, gather

FORWARDER = OUTBOX_STEP  # the worker id of those that send parcels; it has no heartbeat, so it is not listed
BATCH = 500  # parcels at a time
PARCEL_LEASE = 15 * SECOND
# Seconds: a server that does not respond must not hold up the claims of the others.
BATCH_TIMEOUT_SECONDS = 6.0
RETRY_AFTER = 2 * SECOND  # a parcel for a server that is away
SWEEP_INTERVAL_SECONDS = 10.0  # between two searches of one process for parcels that were left
VAIN_INTERVAL_SECONDS = 1.0  # after a search that found nothing


class Outbox:
    """Delivers and completes parcels."""

    def __init__(self, members: Members, deliveries: Deliveries) -> None:
        self._members = members
        self.deliveries = deliveries
        self._swept: dict[str, float] = {}
        self._returns: dict[str, int] = {}
        self._vain: dict[Place, float] = {}
        self._clearing: set[Place] = set()

    async def sweep(self, run_id: str) -> bool:
        """Now and then, deliver the parcels that were left; return whether it was time."""
        if not self._should_sweep(run_id):
            full = [
                one for one in self._members if len(self.deliveries.delivered(Place(run_id, one))) >= BATCH
            ]
            await gather(self._clear_alone(run_id, origin) for origin in full)
            return False
        await gather(self.rescue(run_id, one) for one in self._members if not one.is_away)
        return True

    def _should_sweep(self, run_id: str) -> bool:
        """Return whether it is time to look for parcels that were left; the answer is yes only once."""
        now, returns = asyncio.get_running_loop().time(), sum(member.returns for member in self._members)
        is_due = self._swept.setdefault(run_id, now) + SWEEP_INTERVAL_SECONDS <= now
        # What waited for a server that is back waits no longer.
        if not is_due and self._returns.setdefault(run_id, returns) == returns:
            return False
        self._swept[run_id], self._returns[run_id] = now, returns
        return True

    async def empty(self, run_id: str, origins: Iterable[Member], likely: Collection[Member]) -> bool:
        """Deliver parcels of servers that gave no task; return whether there were any.

        Those in `likely` may have nothing else left, and are searched now and then. The others may, too: a
        server may wait for a task that has expired. So they are searched for what this process has sent.
        """
        now = asyncio.get_running_loop().time()
        chosen = [
            origin
            for origin in origins
            if not origin.is_away and self._may_have_any(Place(run_id, origin), now, likely)
        ]
        counts = await gather(self.clear(run_id, origin) for origin in chosen)
        for origin, count in zip(chosen, counts, strict=True):
            if not count:
                self._vain[Place(run_id, origin)] = now + VAIN_INTERVAL_SECONDS
        return any(counts)

    def _may_have_any(self, place: Place, now: float, likely: Collection[Member]) -> bool:
        may_search = place.member in likely and self._vain.get(place, now) <= now
        return may_search or bool(self.deliveries.delivered(place))

    async def rescue(self, run_id: str, origin: Member) -> None:
        """Deliver the parcels of a server, also those that died because their forwarders did."""
        try:
            async with asyncio.timeout(BATCH_TIMEOUT_SECONDS):
                await origin.call(lambda queue: queue.replay(run_id, where=DeadFilter(step=OUTBOX_STEP)))
        except QueueError:
            return
        except TimeoutError:
            origin.is_away = True
            return
        await self.clear(run_id, origin)

    async def clear(self, run_id: str, origin: Member) -> int:
        """Deliver and complete what is in the outbox of a server, if possible; return how many."""
        place, total = Place(run_id, origin), 0
        delivered = self.deliveries.delivered(place)
        try:
            while True:
                async with asyncio.timeout(BATCH_TIMEOUT_SECONDS):
                    leases = await self._claim(place)
                    total += await self._complete(place, leases) if leases else 0
                if len(leases) < BATCH:
                    await self._forget_delivered(place, delivered, was_found=total > 0)
                    return total
        except QueueError:
            return total
        except TimeoutError:
            origin.is_away = True
            return total

    async def _forget_delivered(self, place: Place, delivered: Collection[str], *, was_found: bool) -> None:
        """Forget parcels that an outbox did not have: others have completed them."""
        if not delivered:
            return
        # A run that is paused gives none, and has them when it is resumed.
        if was_found or not await self._is_paused(place):
            self.deliveries.take_delivered(place, delivered)

    async def _is_paused(self, place: Place) -> bool:
        run = await place.member.call(lambda queue: queue.run(place.run_id))
        return run.state is RunState.PAUSED

    async def _clear_alone(self, run_id: str, origin: Member) -> None:
        """Clear an outbox unless another claim of this process does so."""
        place = Place(run_id, origin)
        if place in self._clearing:
            return
        self._clearing.add(place)
        try:
            await self.clear(run_id, origin)
        finally:
            self._clearing.discard(place)

    async def _claim(self, place: Place) -> Sequence[Lease]:
        grant = await place.member.call(
            lambda queue: queue.claim(
                FORWARDER, run_id=place.run_id, limit=BATCH, lease=PARCEL_LEASE, steps=[OUTBOX_STEP]
            )
        )
        return grant.leases

    async def _complete(self, place: Place, leases: Sequence[Lease]) -> int:
        """Complete parcels once the owners have their tasks; return how many."""
        keys = {lease.task.key or "": lease.task for lease in leases}
        # Also those that this process has not sent yet: its next delivery then changes nothing.
        unknown = keys.keys() - self.deliveries.take_delivered(place, keys)
        owners = {key: self._by_owner(place.run_id, unpack(keys[key])) for key in unknown}
        away = await self._deliver(place.run_id, owners.values())

        def outcome(lease: Lease) -> Outcome:
            waits = not away.isdisjoint(owners.get(lease.task.key or "", ()))
            return Release(lease, after=RETRY_AFTER) if waits else Done(lease)

        outcomes = [outcome(lease) for lease in leases]
        await place.member.call(lambda queue: queue.settle(outcomes))
        return sum(isinstance(one, Done) for one in outcomes)

    def _by_owner(self, run_id: str, tasks: Iterable[Task]) -> dict[Member, list[Task]]:
        intake, found = Intake(run_id, RunSettings()), dict[Member, list[Task]]()
        for task in tasks:
            found.setdefault(self._members.owner_of(intake.entry(task)), []).append(task)
        return found

    async def _deliver(self, run_id: str, parcels: Collection[dict[Member, list[Task]]]) -> set[Member]:
        """Enqueue tasks at their owners; return the owners that are away."""
        by_owner: dict[Member, list[Task]] = {}
        for parcel in parcels:
            for owner, tasks in parcel.items():
                by_owner.setdefault(owner, []).extend(tasks)
        arrived = await gather(
            self.deliveries.enqueue(Place(run_id, owner), tasks) for owner, tasks in by_owner.items()
        )
        return {owner for owner, is_there in zip(by_owner, arrived, strict=True) if not is_there}
