"""Follow-up tasks on their way to other servers: they wait for more of them, so that few calls carry many."""

import asyncio
from collections.abc import Collection, Sequence, Set
from contextlib import suppress
from typing import NamedTuple

from shoal.core.errors import QueueError, UnknownRun
from shoal.core.model import LOWEST_PRIORITY, Task
from shoal.core.tasks import watched
from shoal.queue.sharded.links.parcels import OutgoingParcel
from shoal.queue.sharded.members import Member, cancel, gather
from shoal.queue.sharded.runs import ShardedRuns

LINGER_SECONDS = 0.5  # how long tasks wait for more of them, while workers have enough to do
FULL = 200  # tasks for one server that are sent without waiting for more
# Seconds: a server that does not respond must not hold up the settlements of the others.
DELIVERY_TIMEOUT_SECONDS, CLOSE_TIMEOUT_SECONDS = 3.0, 6.0
MAX_DELIVERED = 10_000  # parcels of one server whose keys are remembered


class Place(NamedTuple):
    """A run on a server."""

    run_id: str
    member: Member


class Posted(NamedTuple):
    """A parcel, and the server that has stored it."""

    origin: Member
    parcel: OutgoingParcel


class Deliveries:
    """Enqueues the tasks of parcels that servers have just accepted.

    It remembers which parcels it has delivered. All others stay in the outbox of their server, which any
    process delivers: what waits here is never lost.
    """

    def __init__(self, runs: ShardedRuns) -> None:
        self._runs = runs
        self._waiting: dict[Place, list[Posted]] = {}  # by the owner of the tasks
        self._since: dict[Place, float] = {}  # when the first of those that wait was added
        self._locks: dict[Place, asyncio.Lock] = {}
        self._delivered: dict[Place, dict[str, None]] = {}  # keys by the server of the parcels, oldest first
        self._refused: set[Place] = set()  # where a call that carried tasks has failed
        self._lingering: asyncio.Task[None] | None = None
        self._is_closed = False

    def add(self, run_id: str, origin: Member, parcels: Collection[OutgoingParcel]) -> None:
        """Deliver these parcels with the next `flush`, which comes soon."""
        for parcel in parcels:
            self._let_wait(Place(run_id, parcel.owner), [Posted(origin, parcel)])

    def _let_wait(self, place: Place, posted: Sequence[Posted], *, are_first: bool = False) -> None:
        if place not in self._waiting:
            self._since[place] = asyncio.get_running_loop().time()
        waiting = self._waiting.setdefault(place, [])
        at = 0 if are_first else len(waiting)
        waiting[at:at] = posted
        if self._lingering is None and not self._is_closed:
            self._lingering = watched(asyncio.create_task(self._linger()))

    def take(self, place: Place) -> Sequence[Posted]:
        """Return what waits for a server, to send it with something else; then `arrived` or `put_back`."""
        if place.member.is_away or place in self._refused:
            return ()
        return self._waiting.pop(place, ())

    def put_back(self, place: Place, posted: Sequence[Posted], *, is_refused: bool) -> None:
        """Let these wait again; after they were refused, they are sent by themselves."""
        self._let_wait(place, posted, are_first=True)
        if is_refused:
            self._refused.add(place)

    def is_urgent(self, run_id: str) -> bool:
        """Return whether the parcels of a run should wait no longer."""
        tasks = [
            [task for _, parcel in posted for task in parcel.tasks]
            for place, posted in self._waiting.items()
            if place.run_id == run_id
        ]
        return any(
            len(some) >= FULL or any(task.priority > LOWEST_PRIORITY for task in some) for some in tasks
        )

    def holds_any(self, run_id: str, ids: Set[bytes]) -> bool:
        """Return whether a task with one of these ids waits."""
        return any(
            not parcel.ids.isdisjoint(ids)
            for place, posted in self._waiting.items()
            if place.run_id == run_id
            for _, parcel in posted
        )

    async def flush(self, run_id: str | None = None, owners: Collection[Member] | None = None) -> bool:
        """Deliver what waits, of one run or of all, unless the owners are away; return whether any did."""
        moving = (place for place, lock in self._locks.items() if lock.locked())
        places = dict.fromkeys([*self._waiting, *moving])
        arrived = await gather(
            self._flush(place)
            for place in places
            if run_id in (None, place.run_id) and (owners is None or place.member in owners)
        )
        return any(arrived)

    async def _flush(self, place: Place) -> bool:
        async with self._locks.setdefault(place, asyncio.Lock()):
            posted = self._waiting.pop(place, [])
            if not posted:
                return False
            try:
                has_arrived = await self.enqueue(place, [task for _, one in posted for task in one.tasks])
            except BaseException:
                self._let_wait(place, posted, are_first=True)
                raise
        if has_arrived:
            self._refused.discard(place)
            self.arrived(place, posted)
        return has_arrived

    def arrived(self, place: Place, posted: Sequence[Posted]) -> None:
        """Note that a server has the tasks of these parcels."""
        for origin, parcel in posted:
            self._delivered.setdefault(Place(place.run_id, origin), {})[parcel.key] = None
        # Their parcels are delivered once more, which changes nothing.
        for delivered in self._delivered.values():
            while len(delivered) > MAX_DELIVERED:
                del delivered[next(iter(delivered))]

    def forget(self, run_id: str) -> None:
        """Forget a run that was deleted: another may get its name."""
        self._refused = {place for place in self._refused if place.run_id != run_id}
        for places in (self._waiting, self._since, self._delivered, self._locks):
            for place in [place for place in places if place.run_id == run_id]:
                del places[place]

    def delivered(self, origin: Place) -> Sequence[str]:
        """Return the parcels of a server that were delivered, and may still be in its outbox."""
        return list(self._delivered.get(origin, ()))

    def take_delivered(self, origin: Place, keys: Collection[str]) -> set[str]:
        """Forget parcels of a server, and return which of them were delivered."""
        known = self._delivered.get(origin, {})
        found = {key for key in keys if key in known}
        for key in found:
            del known[key]
        return found

    async def enqueue(self, place: Place, tasks: Sequence[Task]) -> bool:
        """Enqueue tasks at their owner; return False if it is away."""
        owner = place.member
        if owner.is_away:
            return False
        try:
            async with asyncio.timeout(DELIVERY_TIMEOUT_SECONDS):
                await self._runs.on(owner, place.run_id, lambda queue: queue.enqueue(place.run_id, tasks))
        except UnknownRun:
            return True  # it was purged meanwhile, and its parcels with it
        except QueueError:
            return False
        except TimeoutError:
            owner.is_away = True
            return False
        return True

    async def _linger(self) -> None:
        """Deliver what no settlement has taken along for a while, until nothing waits."""
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                first = min(self._waiting, key=lambda place: self._since[place])
                if (wait := self._since[first] + LINGER_SECONDS - loop.time()) > 0:
                    await asyncio.sleep(wait)
                else:
                    await self._try_flush(first.run_id, [first.member])
        finally:
            self._lingering = None

    async def close(self) -> None:
        """Deliver what waits, if that is possible now."""
        self._is_closed = True
        if self._lingering is not None:
            await cancel([self._lingering])
        await self._try_flush()

    async def _try_flush(self, run_id: str | None = None, owners: Collection[Member] | None = None) -> None:
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(CLOSE_TIMEOUT_SECONDS):
                await self.flush(run_id, owners)
