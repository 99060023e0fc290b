"""Dispatches calls: claims their tasks, sends them to a worker, and to another if that one is lost.

The task of a call lives in the queue like any other. The dispatcher holds its lease, and passes it to a
worker together with its token. When the worker is lost the lease is ended here, which invalidates the token:
later outcomes from that worker are refused, and the result is stored once.
"""

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Self

import msgspec

from shoal.core.errors import CallFailed, QueueError, ShoalError, TaskDied
from shoal.core.model import (
    MINUTE,
    SECOND,
    Bury,
    Fate,
    Grant,
    Lease,
    Note,
    Outcome,
    Release,
    Retry,
    Run,
    Task,
    TaskState,
)
from shoal.core.retry_policy import AT_MOST_ONCE
from shoal.core.tasks import repeat, restarted, start_in, watched
from shoal.fleet.ondemand.client import (
    CallClient,
    CallLost,
    CallNotAccepted,
    ListeningWorker,
    WorkerDirectory,
)
from shoal.queue.contract import Queue, SharedNotes
from shoal.worker.ipc.calls import CallFate, CallRequest, CallResult, FollowedLink

PARTITIONS = 256
RESERVATION_TTL = 15 * SECOND  # without a renewal
RENEW_INTERVAL = 4 * SECOND

log = logging.getLogger(__name__)


class CallPartition:
    """Reserves one partition of a run while it is open."""

    def __init__(self, queue: SharedNotes, run_id: str, holder: str) -> None:
        self._queue, self._topic, self.holder = queue, f"desks {run_id}", holder
        self._note: Note | None = None
        self._renewal: asyncio.Task[None] | None = None
        self.name = ""

    async def __aenter__(self) -> Self:
        await self._reserve()
        duty = restarted("Renewing the partition for calls", self._keep_renewing, log.error)
        self._renewal = watched(asyncio.create_task(duty))
        return self

    async def __aexit__(self, *exc: object) -> None:
        assert self._renewal is not None
        self._renewal.cancel()
        if self._note:
            with suppress(QueueError):
                await self._queue.swap_note(self._topic, self.name, None, stamp=self._note.stamp)

    async def _reserve(self) -> None:
        taken = await self._queue.notes(self._topic)
        for name in (f"desk-{number}" for number in range(PARTITIONS)):
            if name not in taken and (note := await self._write(name, None)):
                self.name, self._note = name, note
                return
        raise CallFailed(
            f"All {PARTITIONS} partitions for calls are in use. Open fewer connections, and share them"
        )

    async def _keep_renewing(self) -> None:
        await repeat(self._renew_or_reserve, RENEW_INTERVAL, jitter=0)

    async def _renew_or_reserve(self) -> None:
        # A process that slept too long may have lost it to another.
        self._note = await self._write(self.name, self._note.stamp) if self._note else None
        if self._note is None:
            with suppress(CallFailed):  # until another process releases one
                await self._reserve()

    async def _write(self, name: str, stamp: int | None) -> Note | None:
        return await self._queue.swap_note(
            self._topic, name, self.holder.encode(), stamp=stamp, ttl=RESERVATION_TTL
        )


LEASE = MINUTE  # extended by the supervisor of the worker that has it
CLAIM_INTERVAL_SECONDS = 0.25  # between two claims, at most
MAX_LEASES = 50  # in one claim


class Scraped(msgspec.Struct, frozen=True, kw_only=True):
    """Result of a call; `follow` has the links that its step would have followed."""

    run_id: str
    task_id: str
    worker_id: str | None  # None if the result was read from the queue
    items: list[Any]
    follow: list[FollowedLink] = msgspec.field(default_factory=list)
    rejected: int = 0


class PendingCall(msgspec.Struct, eq=False):
    """A call that is waiting for its result."""

    task: Task
    task_id: str
    result: asyncio.Future[Scraped]
    is_dispatched: bool = False  # a worker has it, or is being chosen
    losses: int = 0  # workers lost with it

    def succeed(self, scraped: Scraped) -> None:
        """Return the result to the caller."""
        if not self.result.done():
            self.result.set_result(scraped)

    def fail(self, error: ShoalError) -> None:
        """Raise the error in the caller."""
        if not self.result.done():
            self.result.set_exception(error)


class Dispatch:
    """Claims the tasks of one call partition, and sends them to workers."""

    def __init__(
        self, queue: Queue, run: Run, partition: CallPartition, directory: WorkerDirectory, client: CallClient
    ) -> None:
        self._queue, self._run, self._partition = queue, run, partition
        self._directory, self._client = directory, client
        self._calls: dict[str, PendingCall] = {}
        self._serving: set[asyncio.Task[None]] = set()
        self._woken = asyncio.Event()
        self.next_due: timedelta | None = None  # of the last empty claim

    def add(self, call: PendingCall) -> None:
        """Register a call whose task is about to be enqueued."""
        self._calls[call.task_id] = call

    def wake(self) -> None:
        """Claim at once: a task was enqueued."""
        self._woken.set()

    def remove(self, call: PendingCall) -> None:
        """Stop waiting for a call; a worker that has its task still stores the result."""
        self._calls.pop(call.task_id, None)

    async def run(self) -> None:
        """Claim and serve, forever."""
        try:
            while True:
                await self._step()
        finally:
            for serving in self._serving:
                serving.cancel()

    async def _step(self) -> None:
        wanted = [call for call in self._calls.values() if not call.is_dispatched]
        if not wanted:
            await self._sleep(None)
            return
        try:
            if not self._directory.is_ready:
                await self._directory.refresh()
            grant = await self._claim(wanted) if self._directory.is_ready else Grant()
        except QueueError as error:
            self._fail(self._calls.values(), error)
            return
        if not grant.leases:
            self.next_due = grant.next_due
            due = grant.next_due.total_seconds() if grant.next_due else CLAIM_INTERVAL_SECONDS
            await self._sleep(min(max(due, 0.001), CLAIM_INTERVAL_SECONDS))

    async def _claim(self, wanted: list[PendingCall]) -> Grant:
        self._woken.clear()
        grant = await self._queue.claim(
            self._partition.holder,
            run_id=self._run.id,
            limit=min(len(wanted), MAX_LEASES),
            lease=LEASE,
            partitions=sorted({call.task.partition for call in wanted}),
        )
        for lease in grant.leases:
            if call := self._calls.get(lease.task_id):
                call.is_dispatched = True
            watched(start_in(self._serving, self._serve(lease, grant.claimed_at)))
        return grant

    async def _sleep(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._woken.wait()
        except TimeoutError:
            return
        self._woken.clear()

    async def _serve(self, lease: Lease, claimed_at: datetime | None) -> None:
        try:
            await self._send_to_worker(lease, CallRequest(lease=lease, claimed_at=claimed_at))
        except QueueError as error:
            self._fail([self._calls[lease.task_id]] if lease.task_id in self._calls else [], error)

    async def _send_to_worker(self, lease: Lease, request: CallRequest) -> None:
        tried: list[ListeningWorker] = []
        while member := self._directory.pick(tried):
            try:
                result = await self._send(member, request)
            except CallNotAccepted as error:
                member.mark_down(str(error))
                tried.append(member)
            except CallLost as error:
                member.mark_down(str(error))
                await self._end_lost_lease(lease, member)
                return
            else:
                await self._handle_result(lease, member, result)
                return
        await self._queue.settle([Release(lease)])
        self._requeue(lease)

    async def _send(self, member: ListeningWorker, request: CallRequest) -> CallResult:
        member.mine += 1
        sending = asyncio.create_task(self._client.call(member.listed, request))
        losing = asyncio.create_task(member.lost.wait())
        try:
            await asyncio.wait({sending, losing}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                raise CallLost("it no longer responds")
            return sending.result()
        finally:
            member.mine -= 1
            sending.cancel()
            losing.cancel()

    async def _end_lost_lease(self, lease: Lease, member: ListeningWorker) -> None:
        """End the lease of a lost worker.

        The first loss uses no attempt, as most are not the task's fault, unless there is only one attempt. A
        task of an at-most-once step is buried: the worker may have sent its request.
        """
        call = self._calls.get(lease.task_id)
        error = f"WorkerLost: {member.listed.worker_id} was lost while it had the task"
        most = self._run.settings.max_attempts
        is_first = most > 1 and (call is None or not call.losses)
        if call:
            call.losses += 1
        outcome: Outcome = Release(lease) if is_first else Retry(lease, error)
        if lease.task.step in member.listed.once:
            most, is_first, error = 1, False, f"{error}, and {AT_MOST_ONCE}"
            outcome = Bury(lease, error)
        (fate,) = await self._queue.settle([outcome])
        if fate is Fate.STALE:
            await self._look_up(lease)
        elif is_first or lease.attempt < most:
            self._requeue(lease)
        else:
            self._die(lease, error)

    async def _handle_result(self, lease: Lease, member: ListeningWorker, result: CallResult) -> None:
        match result.fate:
            case CallFate.DONE:
                self._succeed(lease, member.listed.worker_id, result)
            case CallFate.RELEASED:
                self._requeue(lease)
            case CallFate.RETRY if lease.attempt < self._run.settings.max_attempts:
                self._requeue(lease)
            case CallFate.RETRY | CallFate.DEAD:
                self._die(lease, result.error, result.traceback)
            case CallFate.STALE:
                await self._look_up(lease)

    async def _look_up(self, lease: Lease) -> None:
        """Read from the queue what became of a task whose lease was ended elsewhere."""
        call = self._calls.get(lease.task_id)
        if call is None:
            return
        found = self._queue.tasks(self._run.id, step=call.task.step, keys=[call.task.key or ""])
        states = [status.state async for status in found if status.id == lease.task_id]
        match states[-1] if states else None:
            case TaskState.COMPLETED:
                stored = self._queue.items(self._run.id, step=call.task.step)
                items = [item.data async for item in stored if item.task_id == lease.task_id]
                self._succeed(lease, None, CallResult(fate=CallFate.DONE, items=items))
            case TaskState.DEAD:
                async for letter in self._queue.dead(self._run.id, ids=[lease.task_id]):
                    self._die(lease, letter.error, letter.traceback)
            case _:
                self._requeue(lease)

    def _succeed(self, lease: Lease, worker_id: str | None, result: CallResult) -> None:
        if call := self._calls.get(lease.task_id):
            call.succeed(
                Scraped(
                    run_id=self._run.id,
                    task_id=lease.task_id,
                    worker_id=worker_id,
                    items=result.items,
                    follow=result.follow,
                    rejected=result.rejected,
                )
            )

    def _die(self, lease: Lease, error: str, traceback: str = "") -> None:
        if call := self._calls.get(lease.task_id):
            call.fail(TaskDied(self._run.id, lease.task_id, lease.task.url, error, traceback))

    def _requeue(self, lease: Lease) -> None:
        if call := self._calls.get(lease.task_id):
            call.is_dispatched = False
            self._woken.set()

    def _fail(self, calls: Iterable[PendingCall], error: ShoalError) -> None:
        for call in list(calls):
            self.remove(call)
            call.fail(error)
