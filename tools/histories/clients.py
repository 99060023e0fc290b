"""Clients that work on two runs at once: mostly as they should, now and then as one that has died."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import count

from msgspec import structs

from shoal.core.model import SECOND, ZERO, Bury, Done, Fate, Lease, Outcome, Release, Retry, Task, TaskState
from shoal.queue.contract import Queue
from tools.histories.record import Entered, Extension, Holding, Record, Settlement

LEASE = SECOND  # short, so that many are lost
MOST = 12  # leases of one client at a time
IDLE = 0.02  # seconds between two claims that found nothing
MOST_WAITING = 250  # tasks in a run, above which the producer waits
PAGES, DEPTH = 400, 2
HOSTS = [f"{name}.example" for name in "abcdefgh"]
STEPS = ("list", "page")
# How a lease is treated, and how often of a hundred.
WAYS = {"work": 58, "fail": 12, "bury": 4, "give back": 8, "lose": 6, "zombie": 6, "extend": 4, "twice": 2}
_claims = count(1)


class Clock(Enum):
    """What `claimed_at` of a store says of the moment at which its leases were granted."""

    EXACT = "exact"
    BEGUN = "begun"  # of the first; a claim goes in rounds, and some were granted later
    GUESSED = "guessed"  # out of the clocks of the nodes of a cluster: it is as exact as the call was short


@dataclass
class Client:
    """One worker of the history; `is_liar` sends requests and says that it did not."""

    name: str
    queues: Sequence[Queue]  # its own first; the others for what is settled twice at once
    record: Record
    chance: random.Random
    clock: Clock = Clock.EXACT
    is_liar: bool = False
    _worker: str = ""
    _handling: set[asyncio.Task[None]] = field(default_factory=set)
    _held: list[Holding] = field(default_factory=list)

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Claim and settle until it is over; then handle what is in hand to its end."""
        self._worker = self.name
        while not is_over():
            room = MOST - len(self._handling)
            granted = await self._claim(room) if room else []
            self._handle(granted, self._treat)
            if self.chance.random() < 0.005:
                await self._abandon()
            await asyncio.sleep(0 if granted else IDLE)
        await self._rest()

    async def drain(self, deadline: datetime) -> bool:
        """Complete what is left of both runs; False if that does not come to an end."""
        while now() < deadline:
            drained: list[str] = []
            for run_id in self.record.runs:
                self._handle(await self._claim(MOST, run_id, drained), self._complete)
                await self._rest()
            if len(drained) == len(self.record.runs):
                return True
            await asyncio.sleep(IDLE)
        return False

    def _handle(self, granted: Sequence[Holding], how: Callable[[Holding], Awaitable[None]]) -> None:
        for one in granted:
            task = asyncio.ensure_future(how(one))
            self._handling.add(task)
            task.add_done_callback(self._handling.discard)

    async def _rest(self) -> None:
        while self._handling:
            await asyncio.gather(*self._handling)

    async def _claim(
        self, limit: int, run_id: str | None = None, drained: list[str] | None = None
    ) -> list[Holding]:
        run_id = run_id or self.chance.choice(list(self.record.runs))
        number, sent = next(_claims), now()
        grant = await self.queues[0].claim(self._worker, run_id=run_id, limit=min(limit, 8), lease=LEASE)
        answered = now()
        if grant.drained and drained is not None:
            drained.append(run_id)
        if not grant.leases:
            return []
        assert grant.claimed_at, "a grant with leases tells no time"
        is_guessed = self.clock is Clock.GUESSED
        earliest = sent if is_guessed else grant.claimed_at
        latest = grant.claimed_at if self.clock is Clock.EXACT else answered
        slack = answered - sent if is_guessed else ZERO
        held = [
            Holding(
                lease,
                self._worker,
                self._host(lease),
                number,
                grant.claimed_at,
                earliest,
                latest,
                answered,
                slack,
            )
            for lease in grant.leases
        ]
        if is_guessed:
            await self._look_up_starts(run_id, held)
        self.record.holdings += held
        self._held += held
        return held

    async def _look_up_starts(self, run_id: str, held: Sequence[Holding]) -> None:
        """Read the starts as the servers have them, which do not depend on how long the claim took."""
        known = {(one.lease.task_id, one.lease.attempt): one for one in held}
        async for status in self.queues[0].tasks(run_id, states=[TaskState.LEASED]):
            one = known.get((status.id, status.attempt))
            if one and status.worker_id == self._worker:
                one.listed = status.since

    def _host(self, lease: Lease) -> str:
        return self.record.intake(lease.run_id).entry(lease.task).host

    async def _treat(self, one: Holding) -> None:
        way = self.chance.choices(list(WAYS), list(WAYS.values()))[0]
        if way == "lose":
            return
        if way == "give back":
            await self._settle(one, Release(one.lease, after=self._after(), asked=self.chance.random() < 0.4))
            return
        if way in ("fail", "bury"):
            await self._fail(one, way)
            return
        if way == "zombie":
            await self._settle_late(one)
            return
        await self._until_start(one)
        if way == "extend":
            await self._work_long(one)
        elif way == "twice":
            done = self._done(one)
            await asyncio.gather(*(self._settle(one, done, queue) for queue in self.queues[:2]))
        else:
            await asyncio.sleep(self.chance.uniform(0, 0.03))
            await self._settle(one, self._done(one))

    async def _complete(self, one: Holding) -> None:
        await self._until_start(one)
        await self._settle(one, structs.replace(self._done(one), follow=()))

    async def _fail(self, one: Holding, way: str) -> None:
        asked = self.chance.random() < 0.6
        if asked:
            await self._until_start(one)
        pause = timedelta(seconds=0.3) if asked and self.chance.random() < 0.1 else None
        if way == "bury":
            await self._settle(one, Bury(one.lease, "buried", pause_host=pause, asked=asked))
        else:
            after = self._after()
            await self._settle(one, Retry(one.lease, "failed", after=after, pause_host=pause, asked=asked))

    async def _settle_late(self, one: Holding) -> None:
        """Wake after the lease was lost, or just before, and settle as if nothing had happened."""
        asked = self.chance.random() < 0.5
        if asked:
            await self._until_start(one)
        wait = (one.claimed_at + one.lease.deadline_in - now()).total_seconds()
        await asyncio.sleep(max(0.0, wait) + self.chance.uniform(-0.05, 0.8))
        late: list[Outcome] = [
            structs.replace(self._done(one), asked=asked),
            Retry(one.lease, "late", asked=asked),
            Bury(one.lease, "late", asked=asked),
            Release(one.lease, asked=asked),
        ]
        await self._settle(one, self.chance.choices(late, [5, 2, 1, 2])[0])

    async def _work_long(self, one: Holding) -> None:
        for _ in range(self.chance.randint(1, 3)):
            await asyncio.sleep(LEASE.total_seconds() * self.chance.uniform(0.3, 1.05))
            sent = now()
            (fate,) = await self.queues[0].extend([one.lease], lease=LEASE)
            one.extensions.append(Extension(sent, now(), LEASE, fate))
        await self._settle(one, self._done(one))

    async def _abandon(self) -> None:
        """Give this worker up as if it were dead; its leases go on in the hands of a zombie."""
        held = [one for one in self._held if not one.settlements]
        sent = now()
        await self.queues[0].abandon(self._worker)
        for one in held:
            one.abandoned = (sent, now())
        self._held.clear()
        self._worker = f"{self.name}-{next(_claims)}"

    async def _until_start(self, one: Holding) -> None:
        await asyncio.sleep(max(0.0, (one.start - now()).total_seconds()))

    async def _settle(self, one: Holding, outcome: Outcome, queue: Queue | None = None) -> None:
        has_asked = outcome.asked
        if self.is_liar:
            outcome = structs.replace(outcome, asked=False)
        sent = now()
        (fate,) = await (queue or self.queues[0]).settle([outcome])
        told = Settlement(outcome, sent, now(), fate, has_asked)
        one.settlements.append(told)
        # A second acceptance is one after a failover, or wrong: then another rule says so.
        if fate is Fate.ACCEPTED and isinstance(outcome, Done):
            self._note_follow_ups(told)

    def _note_follow_ups(self, told: Settlement) -> None:
        assert isinstance(told.outcome, Done)
        run_id = told.outcome.lease.run_id
        intake = self.record.intake(run_id)
        for task in told.outcome.follow:
            task_id = intake.entry(task).id.hex()
            self.record.entered.append(Entered(run_id, task_id, told.sent, told.answered, task.delay))

    def _done(self, one: Holding) -> Done:
        follow = []
        if one.lease.task.depth < DEPTH:
            deeper = one.lease.task.depth + 1
            follow = [make_task(self.chance, deeper) for _ in range(self.chance.randint(0, 2))]
        return Done(one.lease, items=[{"token": one.lease.token}], follow=follow)

    def _after(self) -> timedelta:
        return self.chance.choice([ZERO, ZERO, SECOND / 5])


@dataclass
class Producer:
    """Enqueues tasks, many of them twice, as long as not too many wait."""

    queue: Queue
    record: Record
    chance: random.Random
    most_waiting: int = MOST_WAITING

    async def work(self, is_over: Callable[[], bool]) -> None:
        """Enqueue until it is over."""
        while not is_over():
            for run_id in self.record.runs:
                if (await self.queue.stats(run_id)).remaining < self.most_waiting:
                    await self._enqueue(run_id)
            await asyncio.sleep(0.1)

    async def _enqueue(self, run_id: str) -> None:
        tasks = [make_task(self.chance, 0) for _ in range(self.chance.randint(1, 60))]
        intake, sent = self.record.intake(run_id), now()
        # Before they are sent: another client may have one, and its follow-ups, before the report comes.
        ids = [intake.entry(task).id.hex() for task in tasks]
        entered = [Entered(run_id, one, sent, delay=task.delay) for one, task in zip(ids, tasks, strict=True)]
        place = len(self.record.entered)
        self.record.entered += entered
        report = await self.queue.enqueue(run_id, tasks)
        told = [replace(one, answered=now()) for one in entered]
        self.record.entered[place : place + len(told)] = told
        self.record.added[run_id] = self.record.added.get(run_id, 0) + report.added
        if report.added + report.duplicate != len(tasks) or report.added > len(set(ids)):
            self.record.complaints.append(f"{len(tasks)} tasks were enqueued, and the report is {report}")


def make_task(chance: random.Random, depth: int) -> Task:
    """Return a task out of so few that many come twice; some by http, some with a key or without a URL."""
    page = chance.randrange(PAGES)
    scheme = chance.choice(["https", "http"])
    delay = chance.choice([ZERO] * 6 + [SECOND / 5, SECOND / 2])
    step, priority = STEPS[page % 2], chance.choice([0] * 5 + [3, 9])
    kind = chance.random()
    if kind < 0.1:
        return Task(payload={"page": page}, step=step, priority=priority, delay=delay, depth=depth)
    url = f"{scheme}://{chance.choice(HOSTS)}/{page}"
    key = f"key-{page}" if kind < 0.3 else None
    return Task(url=url, key=key, step=step, priority=priority, delay=delay, depth=depth)


def now() -> datetime:
    return datetime.now(UTC)
