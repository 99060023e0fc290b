"""The state of the model queue: tasks, hosts and workers in dicts, with all counts computed on demand."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from shoal.core.errors import UnknownRun
from shoal.core.model import (
    ZERO,
    Attempt,
    Counts,
    Lease,
    Run,
    StoredItem,
    StoredReject,
    Task,
    TaskState,
)
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.intake import NO_HOST, QueuedTask, read_payload

LEASE_LOST = "lease lost"

State = TaskState

Names = Sequence[str] | None
Worker = tuple[str, str]  # run id, worker id
WAITING = {State.PENDING, State.DELAYED}
REMAINING = {*WAITING, State.LEASED}


@dataclass(slots=True)
class Row:
    """One task with its state."""

    id: str
    run_id: str
    entry: QueuedTask
    order: int
    state: State
    due_at: datetime
    expires_at: datetime | None
    attempts: int = 0
    token: int = 0
    worker_id: str = ""
    started_at: datetime = datetime.max
    start: "Start | None" = None
    deadline: datetime = datetime.max
    ended_at: datetime = datetime.max
    history: list[Attempt] = field(default_factory=list)
    items: int = 0
    rejected: int = 0

    @property
    def task(self) -> Task:
        entry = self.entry
        payload, ask = read_payload(entry.payload)
        return Task(
            url=entry.url,
            step=entry.step,
            payload=payload,
            key=entry.key,
            partition=entry.partition,
            priority=entry.priority,
            ttl=entry.ttl,
            delay=entry.delay,
            depth=entry.depth,
            request=ask,
        )

    @property
    def error(self) -> str:
        """The error of the last attempt; edits are in the history as attempt 0."""
        return next(one.error for one in reversed(self.history) if one.attempt)

    @property
    def yields(self) -> int:
        """The number of items."""
        return self.items + self.rejected

    def matches(self, steps: Names, partitions: Names) -> bool:
        """Tell whether this task matches the filters of a claim."""
        is_chosen = steps is None or self.entry.step in steps
        return is_chosen and (partitions is None or self.entry.partition in partitions)


@dataclass(slots=True)
class Start:
    """A start on a host; without a gap there is no need to give it back."""

    at: datetime
    delay: timedelta  # the host_delay of its run
    gap: timedelta  # the gap used in its claim


@dataclass(slots=True)
class Host:
    """The rate-limit state of a host, shared by all runs."""

    starts: list[Start] = field(default_factory=list)  # without those that were given back
    delay: timedelta = ZERO  # set by an operator
    slowdown: timedelta = ZERO  # set by outcomes
    paused_until: datetime | None = None

    @property
    def last_start(self) -> datetime | None:
        return self.starts[-1].at if self.starts else None

    @property
    def last_delay(self) -> timedelta:
        return self.starts[-1].delay if self.starts else ZERO


@dataclass(slots=True)
class WorkerCounters:
    """The counters of a worker in a run."""

    completed: int = 0
    failed: int = 0
    items: int = 0


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """The last heartbeat of a worker in a run."""

    state: str
    info: Mapping[str, Any]
    at: datetime


@dataclass(frozen=True, slots=True)
class StoredNote:
    """A note."""

    value: bytes
    stamp: int
    at: datetime
    expires_at: datetime | None


@dataclass
class ModelState:
    """The model's state, and the queries that the rules need."""

    now: Callable[[], datetime]
    runs: dict[str, Run] = field(default_factory=dict)
    rows: dict[str, Row] = field(default_factory=dict)
    hosts: defaultdict[str, Host] = field(default_factory=lambda: defaultdict(Host))
    items: list[tuple[str, StoredItem]] = field(default_factory=list)
    rejects: list[tuple[str, StoredReject]] = field(default_factory=list)
    beats: dict[Worker, Heartbeat] = field(default_factory=dict)
    worker_counters: defaultdict[Worker, WorkerCounters] = field(
        default_factory=lambda: defaultdict(WorkerCounters)
    )
    known: dict[tuple[str, bytes], datetime] = field(default_factory=dict)  # by scraper and key
    notes: dict[tuple[str, str], StoredNote] = field(default_factory=dict)  # by topic and key
    last_order: int = 0
    last_token: int = 0
    last_stored: int = 0
    last_stamp: int = 0

    def run(self, run_id: str) -> Run:
        if run_id not in self.runs:
            raise UnknownRun(run_id, list(self.runs))
        return self.runs[run_id]

    def of_run(self, run_id: str) -> Iterator[Row]:
        return (row for row in self.rows.values() if row.run_id == run_id)

    def add(self, run_id: str, entry: QueuedTask) -> Literal["added", "duplicate", "known"]:
        """Add a task, unless its key is in the run, or known from another run of the scraper."""
        task_id = entry.id.hex()
        if task_id in self.rows:
            return "duplicate"
        now = self.now()
        if entry.scraper_key is not None:
            run = self.run(run_id)
            place = run.scraper, entry.scraper_key
            if self.known.get(place, now) > now:
                return "known"
            assert run.settings.dedup is not None
            self.known[place] = now + run.settings.dedup
        self.last_order += 1
        self.rows[task_id] = Row(
            id=task_id,
            run_id=run_id,
            entry=entry,
            order=self.last_order,
            state=State.DELAYED if entry.delay else State.PENDING,
            due_at=now + entry.delay,
            expires_at=now + entry.ttl if entry.ttl else None,
        )
        return "added"

    def shorten_gaps(self, run_id: str, old: timedelta, new: timedelta) -> None:
        """Let the hosts of a run that got faster wait no longer for its old delay."""
        for name in {row.entry.host for row in self.of_run(run_id)}:
            host = self.hosts[name]
            if host.starts and host.last_delay == old and new < old:
                host.starts[-1].delay = new

    # Time passes

    def wake_and_expire(self, rows: Iterable[Row]) -> None:
        """Make due tasks pending and overdue ones expired."""
        now = self.now()
        for row in rows:
            if row.state is State.DELAYED and row.due_at <= now:
                row.state = State.PENDING
            if row.state in WAITING and row.expires_at and row.expires_at <= now:
                row.state, row.ended_at = State.EXPIRED, now

    def end_lost(self, row: Row) -> None:
        """End a lost lease."""
        self.fail(row, LEASE_LOST, bury=self.attempts_left(row) == 0)

    def end_all_lost(self) -> int:
        """End every lost lease, and return their number."""
        lost = self.lost()
        for row in lost:
            self.end_lost(row)
        return len(lost)

    def lost(self) -> list[Row]:
        return [row for row in self.rows.values() if row.state is State.LEASED and row.deadline <= self.now()]

    def attempts_left(self, row: Row) -> int:
        return max(0, self.run(row.run_id).settings.max_attempts - row.attempts)

    def fail(self, row: Row, failure: str, *, bury: bool, after: timedelta = ZERO) -> None:
        """End a failed attempt: the task dies, or becomes pending or delayed."""
        now = self.now()
        row.history.append(Attempt.stored(row.attempts, row.worker_id, failure, now))
        self.worker_counters[row.run_id, row.worker_id].failed += 1
        if bury:
            row.state, row.ended_at = State.DEAD, now
        else:
            row.state, row.due_at = (State.DELAYED if after else State.PENDING), now + after

    def release(self, row: Row, after: timedelta = ZERO) -> None:
        """Return a task that was not attempted: it gets its attempt back."""
        row.attempts -= 1
        row.state, row.due_at = (State.DELAYED if after else State.PENDING), self.now() + after

    def revive(self, row: Row, delay: timedelta = ZERO) -> None:
        """Make a dead task pending: attempts and time to live start again, when the delay is over."""
        now = self.now() + delay
        row.state, row.attempts, row.due_at = State.DELAYED if delay else State.PENDING, 0, now
        row.expires_at = now + row.entry.ttl if row.entry.ttl else None

    # Politeness

    def host_free_at(self, run: Run, name: str) -> datetime | None:
        """Return when the run may start a task of this host; None while it has too many leases."""
        now = self.now()
        if name == NO_HOST:
            return now
        live = [row for row in self.rows.values() if row.state is State.LEASED and row.entry.host == name]
        if len(live) >= run.settings.per_host:
            return None
        host = self.hosts[name]
        gap = max(run.settings.host_delay, host.last_delay, host.delay, host.slowdown)
        return max(now, host.paused_until or now, host.last_start + gap if host.last_start else now)

    def start_of(self, run: Run, name: str, lead: timedelta = ZERO) -> datetime | None:
        """Return the start for a task of this host in a claim; None if it must wait."""
        first, paused_until = self.now() + (ZERO if name == NO_HOST else lead), self.hosts[name].paused_until
        if paused_until and paused_until > first:
            return None
        start = self.host_free_at(run, name)
        return max(first, start) if start and start - first < BURST_HORIZON else None

    def pause(self, name: str, duration: timedelta) -> None:
        """Pause a host; a running pause is never shortened."""
        if name != NO_HOST:
            host, until = self.hosts[name], self.now() + duration
            host.paused_until = max(host.paused_until or until, until)

    def slow(self, name: str, slowdown: timedelta) -> None:
        """Slow a host as an outcome requests."""
        if name != NO_HOST:
            self.hosts[name].slowdown = slowdown

    def take_turn(self, name: str, gap: timedelta) -> timedelta:
        host, now = self.hosts[name], self.now()
        at = now
        if host.last_start:
            at = max(now, host.last_start + max(gap, host.last_delay, host.delay, host.slowdown))
        host.starts = [Start(at, gap, gap)]
        return at - now

    def slow_by_hand(self, name: str, delay: timedelta) -> None:
        self.hosts[name].delay, self.hosts[name].slowdown = delay, ZERO

    # Claims

    def candidates(self, run_id: str, steps: Names, partitions: Names) -> list[Row]:
        """Return the pending tasks that match a claim, in claim order."""
        rows = (
            row
            for row in self.of_run(run_id)
            if row.state is State.PENDING and row.matches(steps, partitions)
        )
        return sorted(rows, key=lambda row: (-row.entry.priority, row.order))

    def first_due(self, run: Run, steps: Names, partitions: Names, lead: timedelta = ZERO) -> datetime | None:
        """Return the first time at which a task becomes claimable by time alone."""
        rows = [row for row in self.of_run(run.id) if row.state in WAITING and row.matches(steps, partitions)]
        free = {host: self.host_free_at(run, host) for host in {row.entry.host for row in rows}}
        moments = (
            (max(row.due_at, free_at - lead), row) for row in rows if (free_at := free[row.entry.host])
        )
        return min(
            (moment for moment, row in moments if row.expires_at is None or moment < row.expires_at),
            default=None,
        )

    def lease(self, row: Row, worker_id: str, token: int, start: datetime, deadline: datetime) -> None:
        """Lease a task: the attempt is counted and the host's last start moves."""
        row.state, row.worker_id, row.token = State.LEASED, worker_id, token
        row.started_at, row.deadline = start, deadline
        row.attempts += 1
        self.last_token = max(self.last_token, token)
        if row.entry.host != NO_HOST:
            host = self.hosts[row.entry.host]
            delay = self.run(row.run_id).settings.host_delay
            row.start = Start(start, delay, max(delay, host.delay, host.slowdown))
            host.starts.append(row.start)

    def give_back(self, row: Row) -> None:
        """Free the start of a task whose host got no request."""
        if row.start and row.start.gap:
            starts = self.hosts[row.entry.host].starts
            starts[:] = [start for start in starts if start is not row.start]

    def held(self, lease: Lease) -> Row | None:
        """Return the task of a live lease."""
        row = self.rows.get(lease.task_id)
        live = row and row.run_id == lease.run_id and row.state is State.LEASED and row.token == lease.token
        return row if live else None

    def held_by(self, worker_id: str) -> list[Row]:
        """Return the tasks that this worker has leased, in any run."""
        rows = self.rows.values()
        return [row for row in rows if row.state is State.LEASED and row.worker_id == worker_id]

    def drained(self, run_id: str) -> bool:
        return not any(row.state in REMAINING for row in self.of_run(run_id))

    # Notes

    def live_notes(self) -> dict[tuple[str, str], StoredNote]:
        """Return the notes that have not expired."""
        now = self.now()
        return {
            place: note for place, note in self.notes.items() if not note.expires_at or note.expires_at > now
        }

    def stamp_of(self, topic: str, key: str) -> int | None:
        note = self.live_notes().get((topic, key))
        return note.stamp if note else None


def count(rows: Iterable[Row]) -> dict[str, int]:
    """Return the fields of `Counts` for these tasks."""
    totals: dict[str, int] = defaultdict(int)
    for row in rows:
        totals[row.state] += 1
        totals["items"] += row.items
        totals["rejected"] += row.rejected
    return dict(totals)


def split(rows: Iterable[Row], by: Callable[[Row], str]) -> dict[str, Counts]:
    """Return the counts of these tasks by group."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[by(row)].append(row)
    return {name: Counts(**count(group)) for name, group in groups.items()}
