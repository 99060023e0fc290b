"""The queue contract in plain Python: the specification that every backend is compared with."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Unpack, assert_never

from shoal.core.errors import RunConflict
from shoal.core.failures import error_text, failure_text
from shoal.core.model import (
    ZERO,
    Bury,
    Done,
    Durability,
    EnqueueReport,
    Fate,
    Grant,
    Lease,
    Outcome,
    Release,
    Retry,
    Run,
    RunSettings,
    RunState,
    StoredItem,
    StoredReject,
)
from shoal.queue.contract import DEFAULT_LEASE, Fence, OnInvalid, RunLimits, StoreSize, Tasks
from shoal.queue.intake import Intake, QueuedTask, decode, encode_item
from shoal.queue.rules import (
    STEERED_FROM,
    changed_settings,
    check_claim,
    check_run,
    free_run_id,
    page_of,
    steered,
)
from tests.conformance.model_reports import ModelReports
from tests.conformance.referee import adopt
from tests.conformance.state import (
    Names,
    Row,
    State,
)


class ModelQueue(ModelReports):
    """A queue that is simple and obviously correct; its clock is a parameter."""

    async def close(self) -> None:
        """Close nothing: the model has no resources."""

    async def durability(self) -> Durability:
        return Durability(False, "A crash costs everything.")

    async def size(self) -> StoreSize:
        return StoreSize(len(self.data.rows) + 1, "the tasks of the model")

    async def migrate(self) -> int:
        return 1

    # Runs

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        check_run(scraper, settings, run_id)
        now = self.data.now()
        if run_id is None:
            run_id = await free_run_id(now, self._has_run)
        run = Run(id=run_id, scraper=scraper, settings=settings, state=RunState.RUNNING, started_at=now)
        run = self.data.runs.setdefault(run_id, run)
        if run.scraper != scraper:
            raise RunConflict(run_id, f"belongs to scraper {run.scraper!r}, not {scraper!r}")
        return run

    async def _has_run(self, run_id: str) -> bool:
        return run_id in self.data.runs

    async def run(self, run_id: str) -> Run:
        return self.data.run(run_id)

    async def runs(self) -> Sequence[Run]:
        return sorted(self.data.runs.values(), key=lambda run: run.started_at, reverse=True)

    async def pause(self, run_id: str) -> Run:
        return self._steer(run_id, RunState.PAUSED)

    async def resume(self, run_id: str) -> Run:
        return self._steer(run_id, RunState.RUNNING)

    async def finish(self, run_id: str, reason: str) -> Run:
        return self._steer(run_id, RunState.PARTIAL, error_text(reason))

    async def cancel(self, run_id: str) -> Run:
        return self._steer(run_id, RunState.CANCELLED)

    def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        run = self.data.run(run_id)
        if run.state in STEERED_FROM[state]:
            run = self.data.runs[run_id] = replace(run, state=state, reason=reason)
        return steered(run, state)

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        old = self.data.run(run_id)
        new = replace(old, settings=changed_settings(old, limits))
        self.data.runs[run_id] = new
        self.data.shorten_gaps(run_id, old.settings.host_delay, new.settings.host_delay)
        return new

    async def purge(self, run_id: str) -> None:
        data = self.data
        data.run(run_id)
        data.rows = {row.id: row for row in data.rows.values() if row.run_id != run_id}
        data.items = [stored for stored in data.items if stored[0] != run_id]
        data.rejects = [stored for stored in data.rejects if stored[0] != run_id]
        data.beats = {worker: beat for worker, beat in data.beats.items() if worker[0] != run_id}
        for worker in [worker for worker in data.worker_counters if worker[0] == run_id]:
            del data.worker_counters[worker]
        del data.runs[run_id]

    # Work

    async def enqueue(
        self, run_id: str, tasks: Tasks, *, on_invalid: OnInvalid | None = None
    ) -> EnqueueReport:
        report = EnqueueReport()
        run = self.data.run(run_id)
        intake = Intake(run_id, run.settings, run.scraper)
        async for batch, invalid in intake.batches(tasks, on_invalid):
            fates = [self.data.add(run_id, entry) for entry in batch]
            report += EnqueueReport(
                added=fates.count("added"),
                duplicate=fates.count("duplicate"),
                known=fates.count("known"),
                invalid=invalid,
            )
        return report

    async def forget(self, scraper: str) -> int:
        keys = [place for place in self.data.known if place[0] == scraper]
        return sum([self.data.known.pop(place) > self.data.now() for place in keys])

    async def claim(
        self,
        worker_id: str,
        *,
        run_id: str,
        limit: int = 50,
        lease: timedelta = DEFAULT_LEASE,
        steps: Names = None,
        partitions: Names = None,
        fence: Fence | None = None,
        lead: timedelta = ZERO,
    ) -> Grant:
        check_claim(limit, lease, fence, lead)
        data, run = self.data, self.data.run(run_id)
        if fence is not None and not self.fence_holds(fence):
            return Grant(outdated=True)
        if run.state is not RunState.RUNNING:
            return Grant(drained=run.state.has_ended)
        data.end_all_lost()
        data.wake_and_expire(data.of_run(run_id))
        leases: list[Lease] = []
        for row in data.candidates(run_id, steps, partitions):
            if len(leases) == limit:
                break
            start = data.start_of(run, row.entry.host, lead)
            if start is not None:
                data.lease(row, worker_id, data.last_token + 1, start, start + lease)
                leases.append(_lease(row, start - data.now(), lease, data.hosts[row.entry.host].slowdown))
        due = data.first_due(run, steps, partitions, lead)
        return Grant(
            leases=leases,
            next_due=None if due is None else max(ZERO, due - data.now()),
            drained=data.drained(run_id),
        )

    def allow(
        self,
        grant: Grant,
        worker_id: str,
        run_id: str,
        limit: int,
        lease: timedelta,
        steps: Names = None,
        partitions: Names = None,
    ) -> None:
        """Check a grant of another backend against the rules, and apply it to this queue."""
        adopt(self.data, grant, worker_id, run_id, limit, lease, steps, partitions)

    async def settle(self, outcomes: Sequence[Outcome]) -> list[Fate]:
        follows = [self._check(outcome) for outcome in outcomes]
        return [self._apply(outcome, follow) for outcome, follow in zip(outcomes, follows, strict=True)]

    def _check(self, outcome: Outcome) -> list[QueuedTask]:
        """Raise for data that cannot be stored; return the follow-up tasks as they will be queued."""
        if not isinstance(outcome, Done):
            return []
        for data in [*outcome.items, *(reject.data for reject in outcome.rejects)]:
            encode_item(data)
        run = self.data.runs.get(outcome.lease.run_id)
        settings, scraper = (run.settings, run.scraper) if run else (RunSettings(), None)
        intake = Intake(outcome.lease.run_id, settings, scraper)
        return [intake.entry(task) for task in outcome.follow]

    def _apply(self, outcome: Outcome, follow: list[QueuedTask]) -> Fate:
        row = self.data.held(outcome.lease)
        if row is None:
            return Fate.STALE
        if not outcome.asked:
            self.data.give_back(row)
        match outcome:
            case Done():
                self._complete(row, outcome, follow)
            case Retry(after=after):
                bury = self.data.attempts_left(row) == 0
                self.data.fail(row, failure_text(outcome), bury=bury, after=after)
            case Bury():
                self.data.fail(row, failure_text(outcome), bury=True)
            case Release(after=after):
                self.data.release(row, after)
            case _:
                assert_never(outcome)
        if not isinstance(outcome, Release) and outcome.pause_host is not None:
            self.data.pause(row.entry.host, outcome.pause_host)
        if outcome.slow_host is not None:
            self.data.slow(row.entry.host, outcome.slow_host)
        return Fate.ACCEPTED

    def _complete(self, row: Row, done: Done, follow: list[QueuedTask]) -> None:
        data, now = self.data, self.data.now()
        row.state, row.items, row.rejected = State.COMPLETED, len(done.items), len(done.rejects)
        for entry in follow:
            data.add(row.run_id, entry)
        for value in done.items:
            data.last_stored += 1
            item = StoredItem(
                id=data.last_stored,
                task_id=row.id,
                url=page_of(done.lease.task),
                step=row.entry.step,
                data=decode(encode_item(value)),
                stored_at=now,
            )
            data.items.append((row.run_id, item))
        for reject in done.rejects:
            data.last_stored += 1
            refused = StoredReject(
                id=data.last_stored,
                task_id=row.id,
                url=page_of(done.lease.task),
                step=row.entry.step,
                data=decode(encode_item(reject.data)),
                reason=reject.reason,
                stored_at=now,
            )
            data.rejects.append((row.run_id, refused))
        counters = data.worker_counters[row.run_id, row.worker_id]
        counters.completed, counters.items = counters.completed + 1, counters.items + len(done.items)

    async def extend(self, leases: Sequence[Lease], *, lease: timedelta = DEFAULT_LEASE) -> list[Fate]:
        check_claim(1, lease)
        rows = [self.data.held(held) for held in leases]
        for row in rows:
            if row:
                row.deadline = self.data.now() + lease
        return [Fate.ACCEPTED if row else Fate.STALE for row in rows]

    async def extend_worker(self, worker_id: str, *, lease: timedelta = DEFAULT_LEASE) -> int:
        check_claim(1, lease)
        now = self.data.now()
        rows = [row for row in self.data.held_by(worker_id) if row.deadline > now]
        for row in rows:
            row.deadline = now + lease
        return len(rows)

    async def reclaim(self) -> int:
        count = self.data.end_all_lost()
        self.data.wake_and_expire(self.data.rows.values())
        return count

    async def abandon(self, worker_id: str, *, once: Collection[str] = (), reason: str = "") -> int:
        abandoned = self.data.held_by(worker_id)
        for row in abandoned:
            if row.entry.step in once:
                self.data.fail(row, error_text(reason), bury=True)
            else:
                self.data.release(row)
        return len(abandoned)


def _lease(row: Row, start_in: timedelta, lease: timedelta, slowdown: timedelta) -> Lease:
    return Lease(
        host_slowdown=slowdown,
        run_id=row.run_id,
        task_id=row.id,
        token=row.token,
        task=row.task,
        attempt=row.attempts,
        start_in=start_in,
        deadline_in=start_in + lease,
    )
