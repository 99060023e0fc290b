"""The queue contract in plain Python: the specification that every backend is compared with."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import assert_never

from msgspec.structs import replace

from shoal.core.failures import failure_text
from shoal.core.model import (
    ZERO,
    Bury,
    Done,
    Durability,
    EnqueueReport,
    Fate,
    Grant,
    Lease,
    Release,
    Retry,
    Run,
    RunSettings,
    RunState,
    StoredItem,
    StoredReject,
)
from shoal.queue.contract import StoreSize
from shoal.queue.intake import PreparedOutcome, QueuedTask, decode, page_of
from shoal.queue.requests import STEERED_FROM, ClaimRequest
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

    async def _start_run(self, scraper: str, settings: RunSettings, run_id: str) -> tuple[Run, bool]:
        now = self.data.now()
        run = Run(id=run_id, scraper=scraper, settings=settings, state=RunState.RUNNING, started_at=now)
        stored = self.data.runs.setdefault(run_id, run)
        return stored, stored is run

    async def now(self) -> datetime:
        return self.data.now()

    async def run(self, run_id: str) -> Run:
        return self.data.run(run_id)

    async def runs(self) -> Sequence[Run]:
        return sorted(self.data.runs.values(), key=lambda run: run.started_at, reverse=True)

    async def _steer(self, run_id: str, state: RunState, reason: str = "") -> Run:
        run = self.data.run(run_id)
        if run.state in STEERED_FROM[state]:
            run = self.data.runs[run_id] = replace(run, state=state, reason=reason)
        return run

    async def _change_run(self, run: Run, settings: RunSettings) -> Run:
        new = self.data.runs[run.id] = replace(run, settings=settings)
        self.data.shorten_gaps(run.id, run.settings.host_delay, settings.host_delay)
        return new

    async def _purge(self, run_id: str) -> None:
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

    async def _enqueue(self, run_id: str, tasks: Sequence[QueuedTask]) -> EnqueueReport:
        fates = [self.data.add(run_id, entry) for entry in tasks]
        return EnqueueReport(
            added=fates.count("added"), duplicate=fates.count("duplicate"), known=fates.count("known")
        )

    async def forget(self, scraper: str) -> int:
        keys = [place for place in self.data.known if place[0] == scraper]
        return sum([self.data.known.pop(place) > self.data.now() for place in keys])

    async def _claim(self, request: ClaimRequest) -> Grant:
        worker_id, run_id, limit, lease, steps, partitions, fence, lead = request
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

    async def _settle(self, outcomes: Sequence[PreparedOutcome]) -> list[Fate]:
        return [self._apply(one) for one in outcomes]

    def _apply(self, prepared: PreparedOutcome) -> Fate:
        outcome = prepared.outcome
        row = self.data.held(outcome.lease)
        if row is None:
            return Fate.STALE
        if not outcome.asked:
            self.data.give_back(row)
        match outcome:
            case Done():
                self._complete(row, outcome, prepared)
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

    def _complete(self, row: Row, done: Done, prepared: PreparedOutcome) -> None:
        data, now = self.data, self.data.now()
        row.state, row.items, row.rejected = State.COMPLETED, len(done.items), len(done.rejects)
        for entry in prepared.follow:
            data.add(row.run_id, entry)
        for text in prepared.items:
            data.last_stored += 1
            item = StoredItem(
                id=data.last_stored,
                task_id=row.id,
                url=page_of(done.lease.task),
                step=row.entry.step,
                data=decode(text),
                stored_at=now,
            )
            data.items.append((row.run_id, item))
        for text, reason in prepared.rejects:
            data.last_stored += 1
            refused = StoredReject(
                id=data.last_stored,
                task_id=row.id,
                url=page_of(done.lease.task),
                step=row.entry.step,
                data=decode(text),
                reason=reason,
                stored_at=now,
            )
            data.rejects.append((row.run_id, refused))
        counters = data.worker_counters[row.run_id, row.worker_id]
        counters.completed, counters.items = counters.completed + 1, counters.items + len(done.items)

    async def _extend(self, leases: Sequence[Lease], lease: timedelta) -> list[Fate]:
        rows = [self.data.held(held) for held in leases]
        for row in rows:
            if row:
                row.deadline = self.data.now() + lease
        return [Fate.ACCEPTED if row else Fate.STALE for row in rows]

    async def _extend_worker(self, worker_id: str, lease: timedelta) -> int:
        now = self.data.now()
        rows = [row for row in self.data.held_by(worker_id) if row.deadline > now]
        for row in rows:
            row.deadline = now + lease
        return len(rows)

    async def reclaim(self) -> int:
        count = self.data.end_all_lost()
        self.data.wake_and_expire(self.data.rows.values())
        return count

    async def _abandon(self, worker_id: str, once: Sequence[str], reason: str) -> int:
        abandoned = self.data.held_by(worker_id)
        for row in abandoned:
            if row.entry.step in once:
                self.data.fail(row, reason, bury=True)
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
