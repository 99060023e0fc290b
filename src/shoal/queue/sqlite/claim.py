"""Claim tasks: lease the first tasks of the due host queues to a worker."""

from collections.abc import Iterable, Sequence
from datetime import timedelta

import msgspec

from shoal.core import pacing
from shoal.core.model import HIGHEST_PRIORITY, Grant, Lease, RunState
from shoal.queue.encoding import duration, micros, moment
from shoal.queue.requests import ClaimRequest
from shoal.queue.sqlite import hosts, notes, runs
from shoal.queue.sqlite.counters import LEASED, PENDING, CounterChanges
from shoal.queue.sqlite.leases import end_lost_leases, sweep_run
from shoal.queue.sqlite.store import NO_HOST, Store, TaskRecord, as_json

MAX_LEASES = 10_000  # per claim
MIN_HOST_QUEUES = 8
PRIORITY_SHIFT = 52  # a task's place is (9 - priority) << 52 | seq


# Which tasks a claim takes: pure functions without a database or a clock.


class DueHostQueue(msgspec.Struct, array_like=True):
    """A host queue whose host may be requested now."""

    id: int
    step_group: int
    host: int
    priority: int
    pending: int
    delay: int  # the host's own delay, or the one it was slowed to
    live: int  # live leases of the host
    slowdown: int


class PendingTask(msgspec.Struct, array_like=True):
    """A pending task at the front of its host queue."""

    position: int  # of its host queue among those read
    place: int
    attempt: int


class Pick(msgspec.Struct):
    """A selected task, and the microseconds until it starts."""

    task: PendingTask
    host_queue: DueHostQueue
    start_in: int


class Burst(msgspec.Struct):
    """The number of tasks that one host allows in this claim."""

    gap: int  # microseconds
    room: int
    taken: int = 0


def bursts(
    host_queues: Iterable[DueHostQueue], run_delay: int, per_host: int, limit: int
) -> dict[int, Burst]:
    """Return what the rate limit of each host, and `per_host`, allow in this claim."""
    found: dict[int, Burst] = {}
    for host_queue in host_queues:
        if host_queue.host == NO_HOST:
            found[NO_HOST] = Burst(0, limit)
        elif host_queue.host not in found:
            # Between two starts of this claim: the delay that applied to the start before it does not count.
            gap = max(run_delay, host_queue.delay)
            found[host_queue.host] = Burst(
                gap, pacing.burst(duration(gap), per_host - host_queue.live, limit)
            )
    return found


def count_host_queues_needed(host_queues: Sequence[DueHostQueue], hosts: dict[int, Burst], limit: int) -> int:
    """Return how many of the first host queues hold `limit` claimable tasks."""
    given: dict[int, int] = {}
    total = 0
    for count, host_queue in enumerate(host_queues, 1):
        before = given.get(host_queue.host, 0)
        given[host_queue.host] = min(hosts[host_queue.host].room, before + host_queue.pending)
        total += given[host_queue.host] - before
        if total >= limit:
            return count
    return len(host_queues)


def choose(
    tasks: Iterable[PendingTask],
    host_queues: Sequence[DueHostQueue],
    hosts: dict[int, Burst],
    limit: int,
    lowest: int,
    lead: int = 0,
) -> list[Pick]:
    """Return the tasks to take from `tasks`, which are sorted by falling priority.

    No task below the priority `lowest` is taken, and none of a host starts sooner than in `lead`.
    """
    end = (HIGHEST_PRIORITY - lowest + 1) << PRIORITY_SHIFT
    picks: list[Pick] = []
    for task in tasks:
        if len(picks) == limit or task.place >= end:
            break
        host_queue = host_queues[task.position]
        host = hosts[host_queue.host]
        if host.taken < host.room:
            first = 0 if host_queue.host == NO_HOST else lead
            picks.append(Pick(task, host_queue, first + host.taken * host.gap))
            host.taken += 1
    return picks


# The claim itself


class ClaimableRun(msgspec.Struct, array_like=True, frozen=True):
    """A run with what a claim needs to know of it."""

    no: int
    state: RunState
    host_delay: int
    per_host: int
    next_lost: int | None
    next_expiry: int | None
    next_delayed: int | None
    worker: int | None

    def has_lost_lease(self, now: int) -> bool:
        """Tell whether a lease of any run is lost."""
        return self.next_lost is not None and self.next_lost <= now

    def has_due_task(self, now: int) -> bool:
        """Tell whether a waiting task has expired or become due."""
        return any(at is not None and at <= now for at in (self.next_expiry, self.next_delayed))


class LeaseRow(msgspec.Struct, array_like=True):
    """A new lease with its task."""

    token: int
    task_id: str
    attempt: int
    deadline: int
    task: TaskRecord


def claim(store: Store, request: ClaimRequest) -> Grant:
    """Lease tasks of a run to a worker; raises UnknownRun."""
    run = store.find("claim_look", ClaimableRun, run_id=request.run_id, worker_id=request.worker_id)
    if run is None:
        raise runs.unknown_run(store, request.run_id)
    if request.fence is not None and not notes.fence_holds(store, request.fence):
        return Grant(outdated=True)
    if run.state is not RunState.RUNNING:
        return Grant(drained=run.state.has_ended)
    return _Claim(store, request, run).grant()


class _Claim:
    """One claim of a running run."""

    def __init__(self, store: Store, request: ClaimRequest, run: ClaimableRun) -> None:
        self._store, self._request, self._run = store, request, run
        # Recorded, so that the store's clock goes on from here if the machine's clock is set back.
        self._now = store.record_now()
        self._limit = min(request.limit, MAX_LEASES)
        self._lease_time, self._lead = micros(request.lease), micros(request.lead)
        self._step_groups = self._find_step_groups()

    def grant(self) -> Grant:
        has_lost_lease = self._run.has_lost_lease(self._now)
        if has_lost_lease:
            end_lost_leases(self._store, self._now)  # a claim does what `reclaim` does, too
        # Afterwards, because a task that was taken back may have expired.
        if has_lost_lease or self._run.has_due_task(self._now):
            swept = sweep_run(self._store, self._now, run=self._run.no)
            if not swept.all_expired:
                # Expired tasks are still among the claimable ones. The next claim continues the sweep, and
                # other processes may write before it.
                return Grant(next_due=duration(0), claimed_at=moment(self._now))
        leases = self._lease_tasks()
        if len(leases) == self._limit:  # there may be more: to look for them is up to the next claim
            return Grant(leases=leases, next_due=duration(0), claimed_at=moment(self._now))
        return Grant(
            leases=leases,
            next_due=self._next_due(),
            drained=not (leases or self._store.value("claim_remaining", run=self._run.no)),
            claimed_at=moment(self._now),
        )

    def _lease_tasks(self) -> list[Lease]:
        """Lease tasks of the due host queues, in rounds of falling priority."""
        leases: list[Lease] = []
        width = self._first_width()
        while remaining := self._limit - len(leases):
            due = self._due(width)
            if not due:
                break
            allowed = bursts(due, self._run.host_delay, self._run.per_host, remaining)
            host_queues = due[: count_host_queues_needed(due, allowed, remaining)]
            more = len(due) == width or len(host_queues) < len(due)
            # Tasks below the priority of the last host queue read must wait: others may come first.
            lowest = host_queues[-1].priority if more else 0
            tasks = self._first_tasks(host_queues, allowed)
            picks = choose(tasks, host_queues, allowed, remaining, lowest, self._lead)
            if picks:
                leases += self._create_leases(picks)
            if not picks or not more:
                break
            # Hosts gave less than a full burst. Doubled, so that many such hosts cost few rounds.
            width *= 2
        return leases

    def _first_width(self) -> int:
        """Return how many host queues to read first: twice what full bursts of their hosts need."""
        burst = pacing.burst(duration(self._run.host_delay), self._run.per_host, self._limit)
        return max(MIN_HOST_QUEUES, -(-2 * self._limit // burst))

    def _due(self, limit: int) -> list[DueHostQueue]:
        known = {"now": self._now + self._lead, "limit": limit}
        if self._step_groups is None:
            return self._store.read("claim_host_queues", list[DueHostQueue], run=self._run.no, **known)
        return self._store.read(
            "claim_host_queues_of", list[DueHostQueue], step_groups=self._step_groups, **known
        )

    def _first_tasks(
        self, host_queues: Sequence[DueHostQueue], allowed: dict[int, Burst]
    ) -> list[PendingTask]:
        """Return the first tasks of host queues, as many of each as its host allows."""
        wanted = as_json([(host_queue.id, allowed[host_queue.host].room) for host_queue in host_queues])
        return self._store.read("claim_tasks", list[PendingTask], wanted=wanted)

    def _create_leases(self, picks: Sequence[Pick]) -> list[Lease]:
        """Create leases for the picked tasks."""
        store = self._store
        store.run_many("claim_lease", self._lease_rows(picks))
        # A transaction writes alone, so the new tokens are consecutive: those after `last` are of this claim.
        last = store.connection.last_insert_rowid() - len(picks)
        store.run("claim_unready", last=last)
        self._record_starts(picks)
        rows = store.read("claim_read", list[LeaseRow], last=last)
        return [self._lease(row, pick.host_queue.slowdown) for row, pick in zip(rows, picks, strict=True)]

    def _lease_rows(self, picks: Sequence[Pick]) -> list[tuple[int, ...]]:
        run, worker, now, lease = self._run.no, self._worker(), self._now, self._lease_time
        # The attempt is counted now: a task that kills its worker must run out of attempts too.
        return [
            (
                run,
                worker,
                pick.host_queue.id,
                pick.task.place,
                pick.host_queue.host,
                pick.task.attempt + 1,
                now + pick.start_in,
                now + pick.start_in + lease,
            )
            for pick in picks
        ]

    def _record_starts(self, picks: Sequence[Pick]) -> None:
        """Count the leases, and record the last starts of every host."""
        counters = CounterChanges()
        new: dict[int, list[hosts.Start]] = {}
        for pick in picks:
            counters.move(pick.host_queue.id, pick.host_queue.step_group, PENDING, LEASED)
            counters.touch(pick.host_queue.host)
            start = self._now + pick.start_in, self._run.host_delay
            new.setdefault(pick.host_queue.host, []).append(start)
        hosts.write_starts(self._store, self._merge_starts(picks, new).items())
        counters.write(self._store)

    def _merge_starts(
        self, picks: Sequence[Pick], new: dict[int, list[hosts.Start]]
    ) -> dict[int, list[hosts.Start]]:
        """Return the starts of hosts including the new ones; without a gap only the last one is kept."""
        delay = self._run.host_delay
        live = {
            pick.host_queue.host: pick.host_queue.live for pick in picks if max(delay, pick.host_queue.delay)
        }
        live.pop(NO_HOST, None)
        known = {host.id: host.starts() for host in hosts.read_starts(self._store, live)} if live else {}
        return {
            host: hosts.add_starts(known[host], added, live[host]) if host in known else added[-1:]
            for host, added in new.items()
        }

    def _lease(self, row: LeaseRow, slowdown: int) -> Lease:
        deadline_in = row.deadline - self._now
        return Lease(
            run_id=self._request.run_id,
            task_id=row.task_id,
            token=row.token,
            task=row.task.task(),
            attempt=row.attempt,
            start_in=duration(deadline_in - self._lease_time),
            deadline_in=duration(deadline_in),
            host_slowdown=duration(slowdown),
        )

    def _worker(self) -> int:
        """Return the worker's number."""
        if self._run.worker is not None:
            return self._run.worker
        number: int = self._store.value("worker_number", run=self._run.no, worker_id=self._request.worker_id)
        return number

    def _find_step_groups(self) -> str | None:
        """Return the step groups that match the filters; None if all of them do."""
        steps, partitions = self._request.steps, self._request.partitions
        if steps is None and partitions is None:
            return None
        text: str = self._store.value(
            "claim_step_groups",
            run=self._run.no,
            steps=None if steps is None else as_json(steps),
            partitions=None if partitions is None else as_json(partitions),
        )
        return text

    def _next_due(self) -> timedelta | None:
        """Return the time until something may become claimable; None if nothing is scheduled."""
        if self._step_groups is None:
            due = self._store.value("claim_next_due", run=self._run.no, lead=self._lead)
        else:
            due = self._store.value(
                "claim_next_due_of", run=self._run.no, step_groups=self._step_groups, lead=self._lead
            )
        return None if due is None else duration(max(0, due - self._now))
