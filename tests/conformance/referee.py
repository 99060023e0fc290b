"""The rules of a claim, checked from outside: is a grant of a backend allowed?"""

from datetime import datetime, timedelta

from shoal.core.model import SECOND, ZERO, Grant, Lease, Run, RunState
from shoal.core.pacing import BURST_HORIZON
from shoal.queue.intake import NO_HOST
from tests.conformance.state import ModelState, Names, Row, State

TOLERANCE = timedelta(milliseconds=1)  # for stores that count in milliseconds or floats


def adopt(
    data: ModelState,
    grant: Grant,
    worker_id: str,
    run_id: str,
    limit: int,
    lease: timedelta,
    steps: Names,
    partitions: Names,
) -> None:
    """Apply the grant of a backend to the model; raises AssertionError with the broken rule."""
    run = data.run(run_id)
    if run.state is not RunState.RUNNING:
        return _check_standstill(run, grant)
    data.end_all_lost()
    data.wake_and_expire(data.of_run(run_id))
    _check_form(grant, limit)
    _check_progress(data, run, grant, steps, partitions)
    for held in sorted(grant.leases, key=lambda held: (held.start_in, -held.task.priority)):
        row = _check_task(data, run, held, steps, partitions)
        # The start by the rules, not the lease's: a store's clock runs on by milliseconds while it claims,
        # and the model's stands still.
        start = _check_times(data, run, row, held, lease)
        data.lease(row, worker_id, held.token, start, start + lease)
    _check_order_across_hosts(data, run, grant, steps, partitions)
    _check_ending(data, run, grant, steps, partitions)
    return None


def _check_standstill(run: Run, grant: Grant) -> None:
    assert not grant.leases, f"the run is {run.state}, but {len(grant.leases)} tasks were handed out"
    assert grant.drained is run.state.has_ended, f"the run is {run.state}, but drained is {grant.drained}"


def _check_form(grant: Grant, limit: int) -> None:
    ids = [held.task_id for held in grant.leases]
    assert len(ids) <= limit, f"{len(ids)} tasks were handed out where {limit} were asked for"
    assert len(set(ids)) == len(ids), f"a task was handed out twice in one grant: {ids}"
    assert grant.next_due is None or grant.next_due >= ZERO, f"next_due lies in the past: {grant.next_due}"


def _check_progress(data: ModelState, run: Run, grant: Grant, steps: Names, partitions: Names) -> None:
    now = data.now()
    for row in data.candidates(run.id, steps, partitions):
        free = data.start_of(run, row.entry.host) == now
        assert grant.leases or not free, f"nothing was handed out, but {_name(row)} is pending on a free host"


def _check_task(data: ModelState, run: Run, held: Lease, steps: Names, partitions: Names) -> Row:
    """Check that the task is claimable, and that the lease describes it."""
    row = data.rows.get(held.task_id)
    assert row and row.run_id == run.id, f"task {held.task_id} is not in run {run.id}"
    assert row.state is State.PENDING, f"{_name(row)} was handed out, but it is {row.state}"
    assert row.matches(steps, partitions), f"{_name(row)} was handed out against {steps=} {partitions=}"
    for rival in data.candidates(run.id, steps, partitions):
        same_host = rival.entry.host == row.entry.host != NO_HOST
        first = same_host and rival.entry.priority > row.entry.priority
        assert not first, f"{_name(rival)} waits on the same host and comes before {_name(row)}"
    assert held.run_id == run.id, f"the lease of {_name(row)} names run {held.run_id}"
    assert held.token > row.token, f"token {held.token} of {_name(row)} does not rise above {row.token}"
    expected = row.attempts + 1
    assert held.attempt == expected, f"{_name(row)} is at attempt {expected}, the lease says {held.attempt}"
    for what in ("url", "step", "payload", "key", "partition", "priority", "depth"):
        was, now = getattr(row.task, what), getattr(held.task, what)
        assert was == now, f"{what} of {_name(row)} was {was!r} and came back as {now!r}"
    return row


def _check_times(data: ModelState, run: Run, row: Row, held: Lease, lease: timedelta) -> datetime:
    """Check the lease's start and deadline against its host's limits; return the first allowed start."""
    start = data.start_of(run, row.entry.host)
    assert start, f"{_name(row)} was handed out, but {_host_state(data, run, row)}"
    wait = start - data.now()
    assert held.start_in >= wait - TOLERANCE, f"{_name(row)} starts in {held.start_in}, too soon: {wait}"
    assert ZERO <= held.start_in < BURST_HORIZON, f"{_name(row)} starts too late: in {held.start_in}"
    slowdown = data.hosts[row.entry.host].slowdown
    assert held.host_slowdown == slowdown, f"{_name(row)}: slowdown {held.host_slowdown}, not {slowdown}"
    late = abs(held.deadline_in - held.start_in - lease)
    assert late < TOLERANCE, f"{_name(row)}: deadline in {held.deadline_in}, not {held.start_in} + {lease}"
    return start


def _check_order_across_hosts(
    data: ModelState, run: Run, grant: Grant, steps: Names, partitions: Names
) -> None:
    lowest = min((held.task.priority for held in grant.leases), default=9)
    now = data.now()
    for row in data.candidates(run.id, steps, partitions):
        passed = row.entry.priority > lowest and data.start_of(run, row.entry.host) == now
        assert not passed, f"{_name(row)} is on a free host, but a task of priority {lowest} went first"


def _check_ending(data: ModelState, run: Run, grant: Grant, steps: Names, partitions: Names) -> None:
    drained = data.drained(run.id)
    assert grant.drained is drained, f"drained must be {drained}, got {grant.drained}"
    due = data.first_due(run, steps, partitions)
    if grant.leases or due is None:
        return
    wait = due - data.now()
    assert grant.next_due is not None, f"a task is due in {wait}, but next_due is None"
    assert grant.next_due <= wait + SECOND, f"a task is due in {wait}, but next_due is {grant.next_due}"


def _name(row: Row) -> str:
    what = row.entry.url or row.entry.payload
    return f"{row.entry.step} {what} (priority {row.entry.priority}, {row.id[:8]})"


def _host_state(data: ModelState, run: Run, row: Row) -> str:
    """Return why a host is blocked for a run."""
    host, now = data.hosts[row.entry.host], data.now()
    if host.paused_until and host.paused_until > now:
        return f"its host is paused for {host.paused_until - now}"
    free = data.host_free_at(run, row.entry.host)
    if free is None:
        return f"its host has {run.settings.per_host} live leases or more"
    return f"its host is free only in {free - now}"
