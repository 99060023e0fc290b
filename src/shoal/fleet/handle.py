"""A run in the hands of a program: look at it, steer it, add to it, and wait for what it finds."""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from shoal.core.errors import InvalidInput
from shoal.core.model import (
    ZERO,
    DeadFilter,
    DeadLetter,
    HostStatus,
    Run,
    Stats,
    StoredReject,
    TaskState,
    WorkerStatus,
)
from shoal.discover.routing import Routes
from shoal.fleet import lifecycle
from shoal.fleet.again import Comparison, compared
from shoal.fleet.filling import FillReport, OnInvalid, fill
from shoal.fleet.launch import Job
from shoal.fleet.letters import find_letter
from shoal.fleet.named import read_sources
from shoal.fleet.partitions import PartitionStatus, partitions
from shoal.fleet.progress import Progress, Snapshot
from shoal.fleet.proxies import ProxyStatus, proxies
from shoal.fleet.records import Record, records
from shoal.fleet.retyping import worker_command
from shoal.fleet.seeds import Stream
from shoal.fleet.staleness import OLD, Holder, release, stale_holders
from shoal.fleet.tokens import TokenStatus, tokens
from shoal.fleet.waiting import Waiting, outcomes
from shoal.queue.contract import Queue
from shoal.worker.not_followed import Links, links_not_followed

LOOK_EVERY = timedelta(milliseconds=500)
NOTHING_ENTERED = FillReport()


def _no_job(run: Run) -> Job:
    raise InvalidInput(
        f"The scraper of run {run.id} is not known here; take the run up with: app.run({run.id!r})"
    )


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run, wherever it is worked on."""

    queue: Queue
    info: Run
    report: FillReport = NOTHING_ENTERED  # of what was entered when it was started
    routes: Routes = field(default_factory=Routes, repr=False)
    job_of: Callable[[Run], Job] = field(default=_no_job, repr=False)
    check: Callable[[], object] | None = field(default=None, repr=False)  # raises what ended its workers here

    @property
    def id(self) -> str:
        """The run's id."""
        return self.info.id

    @property
    def ids(self) -> list[str | None]:
        """The ids of what was handed in as lists when it was started: see `FillReport.ids`."""
        return self.report.ids

    @property
    def worker_command(self) -> str:
        """The command that starts a worker on it, on any machine that has the secrets."""
        return worker_command(self.job_of(self.info), self.id)

    # Adding

    async def enqueue(
        self,
        tasks: Stream = (),
        *,
        urls: Stream = (),
        on_invalid: OnInvalid = "skip",
        **sources: Any,
    ) -> FillReport:
        """Add tasks, URLs and what other sources find; what has entered before is not entered again."""
        seeds = read_sources(urls, tasks, sources)
        job = await asyncio.to_thread(self.job_of, self.info)
        return await fill(self.queue, job, self.info, self.routes, seeds, on_invalid=on_invalid)

    # Steering

    async def pause(self) -> Run:
        """Hand out no task of it until it is resumed."""
        return await self.queue.pause(self.id)

    async def resume(self) -> Run:
        """Let it go on; raises RunConflict when it was cancelled."""
        return await self.queue.resume(self.id)

    async def cancel(self) -> Run:
        """End it for good; nothing is deleted. One that has finished stays as it is."""
        return await lifecycle.cancel(self.queue, self.id)

    async def purge(self) -> None:
        """Delete it with all its tasks, items and dead letters."""
        await lifecycle.purge(self.queue, self.id)

    async def pause_host(self, host: str, duration: timedelta) -> None:
        """Send a host no request for a while, in any run; zero ends a pause."""
        await self.queue.pause_host(host.lower(), duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        """Keep at least this gap between two requests to a host, in any run; zero lifts it."""
        await self.queue.slow_host(host.lower(), delay)

    async def resume_host(self, host: str) -> None:
        """End the pause of a host, and lift its gap."""
        await self.pause_host(host, ZERO)
        await self.slow_host(host, ZERO)

    # Looking

    async def stats(self) -> Stats:
        """Return the counts, whole and by step and partition."""
        return await self.queue.stats(self.id)

    async def watch(self, every: timedelta = LOOK_EVERY) -> AsyncIterator[Snapshot]:
        """Yield how the run is, again and again, the last time when it has finished."""
        progress = Progress(self.queue, self.id)
        while True:
            snapshot = await progress.look()
            yield snapshot
            if snapshot.is_over:
                return
            if self.check:
                self.check()
            await asyncio.sleep(every.total_seconds())

    def records(
        self,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        key: str | None = None,
    ) -> AsyncIterator[Record]:
        """Yield every record's way through the steps, or that of those in a step or a state, or of one."""
        return records(self.queue, self.id, step=step, states=states, key=key)

    async def workers(self) -> Sequence[WorkerStatus]:
        """Return the workers that have ever sent a heartbeat."""
        return await self.queue.workers(self.id)

    def hosts(self) -> AsyncIterator[HostStatus]:
        """Yield the hosts: how they are treated, and what is left of each."""
        return self.queue.hosts(self.id)

    async def stale(self, older: timedelta = OLD) -> list[Holder]:
        """Return who holds tasks and is gone, or has held them for very long."""
        return await stale_holders(self.queue, self.id, older=older)

    async def release(self, holders: Collection[Holder]) -> int:
        """Hand back what stale workers hold, and return how many tasks."""
        return await release(self.queue, holders)

    async def tokens(self) -> list[TokenStatus]:
        """Return the API tokens that it used lately: what is left of each."""
        return await tokens(self.queue, self.id)

    async def not_followed(self) -> dict[str, Links]:
        """Return the links that were not followed so far by reason: how many, and one of them."""
        return await links_not_followed(self.queue, self.id)

    async def proxies(self) -> list[ProxyStatus]:
        """Return the proxies by name: what came by each, what went wrong, and which are benched."""
        return await proxies(self.queue, self.id)

    async def partitions(self) -> list[PartitionStatus]:
        """Return the partitions by name: how much is left of each, and who has it by the plan."""
        return await partitions(self.queue, self.id)

    # Dead letters

    async def dead(self, where: DeadFilter = DeadFilter()) -> list[DeadLetter]:
        """Return the dead letters, or those that are meant."""
        return [letter async for letter in self.queue.dead(self.id, where)]

    async def letter(self, letter_id: str) -> DeadLetter:
        """Return one dead letter; raises UnknownLetter."""
        return await find_letter(self.queue, self.id, letter_id)

    async def replay(self, ids: Sequence[str] | None = None, where: DeadFilter = DeadFilter()) -> int:
        """Put dead letters back to pending, all of them unless some are named, and return how many."""
        return await self.queue.replay(self.id, ids, where=where)

    async def drop(self, ids: Sequence[str] | None = None, where: DeadFilter = DeadFilter()) -> int:
        """Give dead letters up for good, all of them unless some are named, and return how many."""
        return await self.queue.drop(self.id, ids, where=where)

    # Results

    async def results(
        self, *, step: str | None = None, after: int = 0, ids: Collection[str] | None = None
    ) -> AsyncIterator[Any]:
        """Yield the items as they come, until the run has finished, or until the tasks named have ended.

        A task that died is no item; `dead` has them.
        """
        seen: set[int] = set()
        last, chosen = after, None if ids is None else set(ids)
        waiting = Waiting(self.queue, self.id, chosen or ())
        await waiting.check()
        async for snapshot in self.watch():
            is_last = snapshot.is_over
            if chosen is not None:
                await waiting.look(snapshot, is_last=is_last)
                is_last = is_last or waiting.is_over
            # An item may be committed after one with a higher id: the last look goes over all of them again.
            async for item in self.queue.items(self.id, step=step, after=after if is_last else last):
                last = max(last, item.id)
                if item.id not in seen and (chosen is None or item.task_id in chosen):
                    seen.add(item.id)
                    yield item.data
            if is_last:
                return

    async def result(self, task_id: str, timeout: timedelta | None = None) -> list[Any]:
        """Return the items of one task when it is done, an empty list if it gave none.

        Raises UnknownTask at once for an id that the run does not have, TaskDied, TaskExpired, TimeoutError.
        """
        return (await self.items_of([task_id], timeout))[task_id]

    async def items_of(self, ids: Sequence[str], timeout: timedelta | None = None) -> dict[str, list[Any]]:
        """Return the items of each of these tasks when all are done; raises as soon as one has failed.

        The error is a TaskDied or TaskExpired whose `results` are those of the others so far.
        """
        waiting = await self.outcomes(ids, timeout, strict=True)
        for error in waiting.errors.values():
            raise error
        return waiting.items

    async def outcomes(
        self, ids: Sequence[str], timeout: timedelta | None = None, *, strict: bool = False
    ) -> Waiting:
        """Wait until these tasks have ended: `items` by id of those that are done, `errors` of the others."""
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            waiting = await outcomes(self.queue, self.id, ids, self.watch(), strict=strict)
        for error in waiting.errors.values():
            error.results = waiting.items
        return waiting

    async def wait(
        self, ids: Sequence[str] | timedelta | None = None, timeout: timedelta | None = None
    ) -> Stats:
        """Return the counts when the run has finished, or when the tasks named have ended.

        Raises TimeoutError, and nothing is lost by that.
        """
        if isinstance(ids, timedelta):
            ids, timeout = None, ids
        if ids is not None:
            await self.outcomes(ids, timeout)
            return await self.stats()
        async with asyncio.timeout(timeout.total_seconds() if timeout else None):
            async for snapshot in self.watch():
                stats = snapshot.stats
        return stats

    def rejects(self, *, step: str | None = None, after: int = 0) -> AsyncIterator[StoredReject]:
        """Yield the items that failed validation or a filter, with the reasons."""
        return self.queue.rejects(self.id, step=step, after=after)

    async def compared(self) -> Comparison:
        """Return what the run has found of its pages so far: new, changed, unchanged, gone."""
        return await compared(self.queue, self.info)
