"""Handing out tasks: lanes that are due give their first tasks to a worker."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

import msgspec

from shoal.core import pacing
from shoal.core.model import Grant, Lease, RunState
from shoal.queue.contract import Fence
from shoal.queue.sqlite import notes, runs, starts, sweep
from shoal.queue.sqlite.choose import Burst, DueLane, Pick, Waiting, bursts, choose, enough
from shoal.queue.sqlite.moment import duration, micros, moment
from shoal.queue.sqlite.rows import NO_HOST, TaskRow
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.tally import LEASED, PENDING, Tally
from shoal.queue.sqlite.texts import as_json

MOST = 10_000  # leases of one claim
FEWEST_LANES = 8


@dataclass(frozen=True, slots=True)
class Wish:
    """What a worker asks for."""

    worker_id: str
    run_id: str
    limit: int
    lease: timedelta
    steps: Sequence[str] | None = None
    partitions: Sequence[str] | None = None
    fence: Fence | None = None


class Look(msgspec.Struct, array_like=True, frozen=True):
    """A run as a claim finds it."""

    run: int
    state: RunState
    host_delay: int
    per_host: int
    next_lost: int | None
    next_expiry: int | None
    next_delayed: int | None
    worker: int | None

    def lost(self, now: int) -> bool:
        """Say whether a lease of any run is lost."""
        return self.next_lost is not None and self.next_lost <= now

    def moved(self, now: int) -> bool:
        """Say whether time has moved a waiting task."""
        return any(at is not None and at <= now for at in (self.next_expiry, self.next_delayed))


class LeaseRow(msgspec.Struct, array_like=True):
    """A lease that was just made, with its task."""

    token: int
    task_id: str
    attempt: int
    deadline: int
    task: TaskRow


def claim(store: Store, wish: Wish) -> Grant:
    """Lease tasks of a run to a worker; raises UnknownRun."""
    look = store.find("claim_look", Look, run_id=wish.run_id, worker_id=wish.worker_id)
    if look is None:
        raise runs.unknown(store, wish.run_id)
    if wish.fence is not None and not notes.stands(store, wish.fence):
        return Grant(outdated=True)
    if look.state is not RunState.RUNNING:
        return Grant(drained=look.state.has_ended)
    return _Claim(store, wish, look).grant()


class _Claim:
    """One claim of a running run."""

    def __init__(self, store: Store, wish: Wish, look: Look) -> None:
        self._store, self._wish, self._look = store, wish, look
        self._now = store.now()
        self._limit = min(wish.limit, MOST)
        self._lease_time = micros(wish.lease)
        self._sections = self._narrowed()

    def grant(self) -> Grant:
        lost = self._look.lost(self._now)
        if lost:
            sweep.take_back_lost(self._store, self._now)
        # Afterwards, for what was taken back may have outlived its time.
        if lost or self._look.moved(self._now):
            passed = sweep.let_time_pass(self._store, self._now, run=self._look.run)
            if not passed.all_expired:
                # Overdue tasks are still among those to hand out. The next claim goes on with them, and
                # others may write before it.
                return Grant(next_due=duration(0), claimed_at=moment(self._now))
        leases = self._leases()
        if len(leases) == self._limit:
            return Grant(leases=leases, next_due=duration(0), claimed_at=moment(self._now))
        return Grant(
            leases=leases,
            next_due=self._next_due(),
            drained=not leases and self._drained(),
            claimed_at=moment(self._now),
        )

    def _leases(self) -> list[Lease]:
        """Lease what the due lanes have, in rounds of falling priority."""
        leases: list[Lease] = []
        width = self._first_width()
        while room := self._limit - len(leases):
            due = self._due(width)
            if not due:
                break
            hosts = bursts(due, self._look.host_delay, self._look.per_host, room)
            lanes = due[: enough(due, hosts, room)]
            more = len(due) == width or len(lanes) < len(due)
            # What lies below the last lane that was read must wait: those that were not read may come first.
            picks = choose(self._front(lanes, hosts), lanes, hosts, room, lanes[-1].priority if more else 0)
            if picks:
                leases += self._hand_out(picks)
            if not picks or not more:
                break
            width *= 2
        return leases

    def _first_width(self) -> int:
        """Return how many lanes to read first: twice what is needed when each host gives a whole burst."""
        burst = pacing.burst(duration(self._look.host_delay), self._look.per_host, self._limit)
        return max(FEWEST_LANES, -(-2 * self._limit // burst))

    def _due(self, limit: int) -> list[DueLane]:
        known = {"now": self._now, "limit": limit}
        if self._sections is None:
            return self._store.read("claim_lanes", list[DueLane], run=self._look.run, **known)
        return self._store.read("claim_lanes_of", list[DueLane], sections=self._sections, **known)

    def _front(self, lanes: Sequence[DueLane], hosts: dict[int, Burst]) -> list[Waiting]:
        """Return the first tasks of lanes, as many of each as its host may give."""
        wanted = as_json([(lane.id, hosts[lane.host].room) for lane in lanes])
        return self._store.read("claim_tasks", list[Waiting], wanted=wanted)

    def _hand_out(self, picks: Sequence[Pick]) -> list[Lease]:
        """Turn the picked tasks into leases."""
        store = self._store
        store.many("claim_lease", self._rows(picks))
        last = store.connection.last_insert_rowid() - len(picks)
        store.tell("claim_unready", last=last)
        self._move_gates(picks)
        rows = store.read("claim_read", list[LeaseRow], last=last)
        return [self._lease(row, pick.lane.slowdown) for row, pick in zip(rows, picks, strict=True)]

    def _rows(self, picks: Sequence[Pick]) -> list[tuple[int, ...]]:
        run, worker, now, lease = self._look.run, self._worker(), self._now, self._lease_time
        return [
            (
                run,
                worker,
                pick.lane.id,
                pick.task.place,
                pick.lane.host,
                pick.task.attempt + 1,
                now + pick.start_in,
                now + pick.start_in + lease,
            )
            for pick in picks
        ]

    def _move_gates(self, picks: Sequence[Pick]) -> None:
        """Count the leases, and note the last start of every host."""
        tally = Tally()
        fresh: dict[int, list[starts.Start]] = {}
        for pick in picks:
            tally.move(pick.lane.id, pick.lane.section, PENDING, LEASED)
            tally.touch(pick.lane.host)
            start = self._now + pick.start_in, self._look.host_delay
            fresh.setdefault(pick.lane.host, []).append(start)
        starts.write(self._store, self._all_starts(picks, fresh).items())
        tally.write(self._store)

    def _all_starts(
        self, picks: Sequence[Pick], fresh: dict[int, list[starts.Start]]
    ) -> dict[int, list[starts.Start]]:
        """Return the starts of hosts with the new ones; where no gap is kept, none is worth remembering."""
        delay = self._look.host_delay
        live = {pick.lane.host: pick.lane.live for pick in picks if max(delay, pick.lane.delay)}
        live.pop(NO_HOST, None)
        known = {host.id: host.starts() for host in starts.read(self._store, live)} if live else {}
        return {
            host: starts.added(known[host], new, live[host]) if host in known else new[-1:]
            for host, new in fresh.items()
        }

    def _lease(self, row: LeaseRow, slowdown: int) -> Lease:
        deadline_in = row.deadline - self._now
        return Lease(
            run_id=self._wish.run_id,
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
        if self._look.worker is not None:
            return self._look.worker
        number: int = self._store.value("worker_know", run=self._look.run, worker_id=self._wish.worker_id)
        return number

    def _narrowed(self) -> str | None:
        """Return the sections that the filters mean; None when there are no filters."""
        steps, partitions = self._wish.steps, self._wish.partitions
        if steps is None and partitions is None:
            return None
        text: str = self._store.value(
            "claim_sections",
            run=self._look.run,
            steps=None if steps is None else as_json(steps),
            partitions=None if partitions is None else as_json(partitions),
        )
        return text

    def _next_due(self) -> timedelta | None:
        """Return how long until time alone makes something claimable; None when nothing is known to come."""
        if self._sections is None:
            due = self._store.value("claim_next_due", run=self._look.run)
        else:
            due = self._store.value("claim_next_due_of", run=self._look.run, sections=self._sections)
        return None if due is None else duration(max(0, due - self._now))

    def _drained(self) -> bool:
        return not self._store.value("claim_remaining", run=self._look.run)
