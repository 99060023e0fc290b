"""Calls on their way: claimed from the queue, handed to a worker, and handed to another if that one is lost.

The task of a call lives in the queue like any other. Whoever dispatches holds its lease, and lends it to a
worker together with its token. When the worker is lost the lease is ended here, so that the token is out of
date: whatever that worker still says is refused, and the result is stored once.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from shoal.core.errors import QueueError, ShoalError, TaskDied
from shoal.core.model import MINUTE, Fate, Grant, Lease, Release, Retry, Run, Task, TaskState
from shoal.core.tasks import watched
from shoal.fleet.caller import Caller, Lost, NotTaken
from shoal.fleet.desk import Desk
from shoal.fleet.directory import Directory, Member
from shoal.queue.contract import Queue
from shoal.worker.calls import Answer, Call, Link

LEASE = MINUTE  # the keeper of the worker that has it extends it
LOOK_AGAIN = 0.25  # seconds
MOST_AT_ONCE = 50  # leases in one claim


@dataclass(frozen=True, slots=True, kw_only=True)
class Scraped:
    """What a call has brought; `follow` are the links that its step would have followed."""

    run_id: str
    task_id: str
    worker_id: str | None  # None where only the queue knew the result
    items: list[Any]
    follow: list[Link] = field(default_factory=list)
    rejected: int = 0


@dataclass(slots=True, eq=False)
class Errand:
    """A call that somebody waits for."""

    task: Task
    task_id: str
    result: asyncio.Future[Scraped]
    is_out: bool = False  # a worker has it, or is being looked for
    losses: int = 0  # workers that were lost with it

    def succeed(self, scraped: Scraped) -> None:
        """Tell the caller what it brought."""
        if not self.result.done():
            self.result.set_result(scraped)

    def fail(self, error: ShoalError) -> None:
        """Tell the caller why it came to nothing."""
        if not self.result.done():
            self.result.set_exception(error)


class Dispatch:
    """Claims the tasks of one desk, and has them handled."""

    def __init__(self, queue: Queue, run: Run, desk: Desk, directory: Directory, caller: Caller) -> None:
        self._queue, self._run, self._desk = queue, run, desk
        self._directory, self._caller = directory, caller
        self._errands: dict[str, Errand] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self.next_due: timedelta | None = None  # of the last claim that brought nothing

    def enter(self, errand: Errand) -> None:
        """Wait for an errand's lease, whose task is about to be enqueued."""
        self._errands[errand.task_id] = errand

    def wake(self) -> None:
        """Look at once: a task was enqueued."""
        self._woken.set()

    def leave(self, errand: Errand) -> None:
        """Wait for an errand no longer; what a worker has of it is still stored."""
        self._errands.pop(errand.task_id, None)

    async def run(self) -> None:
        """Claim and serve, for ever."""
        try:
            while True:
                await self._step()
        finally:
            for serving in self._serving:
                serving.cancel()

    async def _step(self) -> None:
        wanted = [errand for errand in self._errands.values() if not errand.is_out]
        if not wanted:
            await self._rest(None)
            return
        try:
            if not self._directory.is_ready:
                await self._directory.look()
            grant = await self._claim(wanted) if self._directory.is_ready else Grant()
        except QueueError as error:
            self._fail(self._errands.values(), error)
            return
        if not grant.leases:
            self.next_due = grant.next_due
            due = grant.next_due.total_seconds() if grant.next_due else LOOK_AGAIN
            await self._rest(min(max(due, 0.001), LOOK_AGAIN))

    async def _claim(self, wanted: list[Errand]) -> Grant:
        self._woken.clear()
        grant = await self._queue.claim(
            self._desk.holder,
            run_id=self._run.id,
            limit=min(len(wanted), MOST_AT_ONCE),
            lease=LEASE,
            partitions=sorted({errand.task.partition for errand in wanted}),
        )
        for lease in grant.leases:
            if errand := self._errands.get(lease.task_id):
                errand.is_out = True
            serving = watched(asyncio.create_task(self._serve(lease, grant.claimed_at)))
            self._serving.add(serving)
            serving.add_done_callback(self._serving.discard)
        return grant

    async def _rest(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    async def _serve(self, lease: Lease, claimed_at: datetime | None) -> None:
        try:
            await self._lend(lease, Call(lease=lease, claimed_at=claimed_at))
        except QueueError as error:
            self._fail([self._errands[lease.task_id]] if lease.task_id in self._errands else [], error)

    async def _lend(self, lease: Lease, call: Call) -> None:
        tried: list[Member] = []
        while member := self._directory.pick(tried):
            try:
                answer = await self._asked(member, call)
            except NotTaken as error:
                member.down(str(error))
                tried.append(member)
            except Lost as error:
                member.down(str(error))
                await self._take_back(lease, member)
                return
            else:
                await self._conclude(lease, member, answer)
                return
        await self._queue.settle([Release(lease)])
        self._again(lease)

    async def _asked(self, member: Member, call: Call) -> Answer:
        member.mine += 1
        asking = asyncio.create_task(self._caller.call(member.listed, call))
        losing = asyncio.create_task(member.lost.wait())
        try:
            await asyncio.wait({asking, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not asking.done():
                raise Lost("it no longer answers")
            return asking.result()
        finally:
            member.mine -= 1
            asking.cancel()
            losing.cancel()

    async def _take_back(self, lease: Lease, member: Member) -> None:
        """End the lease that a lost worker had.

        The first loss costs no attempt, as most are bad luck, unless the task may be tried only once.
        """
        errand = self._errands.get(lease.task_id)
        error = f"WorkerLost: {member.listed.worker_id} was lost while it had the task"
        most = self._run.settings.max_attempts
        is_first = most > 1 and (errand is None or not errand.losses)
        if errand:
            errand.losses += 1
        (fate,) = await self._queue.settle([Release(lease) if is_first else Retry(lease, error)])
        if fate is Fate.STALE:
            await self._look_up(lease)
        elif is_first or lease.attempt < most:
            self._again(lease)
        else:
            self._die(lease, error)

    async def _conclude(self, lease: Lease, member: Member, answer: Answer) -> None:
        match answer.fate:
            case "done":
                self._succeed(lease, member.listed.worker_id, answer)
            case "released":
                self._again(lease)
            case "retry" if lease.attempt < self._run.settings.max_attempts:
                self._again(lease)
            case "retry" | "dead":
                self._die(lease, answer.error)
            case _:
                await self._look_up(lease)

    async def _look_up(self, lease: Lease) -> None:
        """Ask the queue what became of a task whose lease has ended otherwise than here."""
        errand = self._errands.get(lease.task_id)
        if errand is None:
            return
        key = errand.task.key or ""
        found = self._queue.tasks(self._run.id, step=errand.task.step, keys=[key])
        states = [status.state async for status in found if status.id == lease.task_id]
        match states[-1] if states else None:
            case TaskState.COMPLETED:
                stored = self._queue.items(self._run.id, step=errand.task.step)
                items = [item.data async for item in stored if item.task_id == lease.task_id]
                self._succeed(lease, None, Answer(fate="done", items=items))
            case TaskState.DEAD:
                async for letter in self._queue.dead(self._run.id, ids=[lease.task_id]):
                    self._die(lease, letter.error)
            case _:
                self._again(lease)

    def _succeed(self, lease: Lease, worker_id: str | None, answer: Answer) -> None:
        if errand := self._errands.get(lease.task_id):
            errand.succeed(
                Scraped(
                    run_id=self._run.id,
                    task_id=lease.task_id,
                    worker_id=worker_id,
                    items=answer.items,
                    follow=answer.follow,
                    rejected=answer.rejected,
                )
            )

    def _die(self, lease: Lease, error: str) -> None:
        if errand := self._errands.get(lease.task_id):
            errand.fail(TaskDied(self._run.id, lease.task_id, lease.task.url, error))

    def _again(self, lease: Lease) -> None:
        if errand := self._errands.get(lease.task_id):
            errand.is_out = False
            self._woken.set()

    def _fail(self, errands: Iterable[Errand], error: ShoalError) -> None:
        for errand in list(errands):
            self.leave(errand)
            errand.fail(error)
