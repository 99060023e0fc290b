"""Random histories that a backend and the model go through side by side, agreeing after every step."""

import asyncio
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from shoal.core.model import (
    ZERO,
    Bury,
    DeadFilter,
    Done,
    Fate,
    Lease,
    Outcome,
    Reject,
    Release,
    Retry,
    RunSettings,
    Task,
)
from tests.conformance.backends import Bench, VirtualClock
from tests.conformance.helpers import HOUR, TEN, every
from tests.conformance.model import ModelQueue

# All times are multiples of ten seconds, so that the milliseconds of a real clock decide nothing.
tens = st.integers(1, 6).map(lambda count: count * TEN)
brakes = st.sampled_from([None] * 6 + [ZERO, TEN, 3 * TEN])
pauses = st.sampled_from([ZERO, ZERO, ZERO, ZERO, TEN, 3 * TEN])

HOSTS = ["a.example", "b.example", "c.example:8080"]
STEPS = ["list", "page"]
PARTITIONS = ["", "ca", "ny"]
WORKERS = ["w1", "w2"]
ERRORS = ["timeout", "status 404", "status 503"]

urls = st.builds("https://{}/{}".format, st.sampled_from(HOSTS), st.integers(1, 3))
tasks = st.builds(
    Task,
    url=st.one_of(urls, urls, urls, st.none()),
    step=st.sampled_from(STEPS),
    payload=st.fixed_dictionaries({"n": st.integers(0, 2)}),
    key=st.sampled_from([None, None, None, "k"]),
    partition=st.sampled_from(PARTITIONS),
    priority=st.sampled_from([0, 0, 5, 9]),
    ttl=st.sampled_from([None, None, None, None, 2 * TEN, 6 * TEN]),
    delay=pauses,
    depth=st.integers(0, 2),
)
run_settings = st.builds(
    RunSettings,
    host_delay=st.sampled_from([ZERO, ZERO, TEN, 2 * TEN]),
    per_host=st.integers(1, 3),
    max_attempts=st.integers(1, 3),
    ttl=st.sampled_from([None, None, 9 * TEN]),
)
dead_filters = st.one_of(
    st.just(DeadFilter()),
    st.builds(
        DeadFilter,
        step=st.sampled_from([None, *STEPS]),
        partition=st.sampled_from([None, *PARTITIONS]),
        host=st.sampled_from([None, *HOSTS]),
        error=st.sampled_from([None, "status", "lost"]),
    ),
)


def outcomes(lease: Lease) -> st.SearchStrategy[Outcome]:
    """Return every outcome that a lease may come to."""
    held, errors = st.just(lease), st.sampled_from(ERRORS)
    items = st.lists(st.integers(0, 9), max_size=2)
    rejects = st.lists(st.builds(Reject, data=st.integers(0, 9), reason=st.just("odd")), max_size=1)
    follow = st.lists(tasks, max_size=2)
    return st.one_of(
        st.builds(Done, held, items, follow, rejects, pause_host=brakes, slow_host=brakes),
        st.builds(Retry, held, errors, after=pauses, pause_host=brakes, slow_host=brakes),
        st.builds(Bury, held, errors, pause_host=brakes, slow_host=brakes),
        st.builds(Release, held),
    )


def endings(leases: list[Lease]) -> st.SearchStrategy[list[Outcome]]:
    return st.tuples(*map(outcomes, leases)).map(list)


class Histories(RuleBasedStateMachine):
    """Two runs that share hosts, on a backend and on the model; each verb is called on both."""

    bench: ClassVar[Bench]
    loop: ClassVar[asyncio.Runner]

    def __init__(self) -> None:
        super().__init__()
        self.clock = VirtualClock()
        self.model = ModelQueue(self.clock.now)
        self.runs: list[str] = []
        self.leases: list[Lease] = []

    @property
    def queue(self) -> Any:
        return self.bench.queue

    def do(self, call: Any) -> Any:
        return self.loop.run(call)

    def both(self, verb: str, *args: Any, **named: Any) -> Any:
        """Call a verb on the backend and on the model; the answers must be equal."""
        got = self.do(getattr(self.queue, verb)(*args, **named))
        expected = self.do(getattr(self.model, verb)(*args, **named))
        assert got == expected, f"{verb} answered {got}, the model {expected}"
        return got

    def wait(self, delta: Any) -> None:
        self.do(self.bench.clock.forward(delta))
        self.do(self.clock.forward(delta))

    @initialize(first=run_settings, second=run_settings, batch=st.lists(tasks, min_size=5, max_size=15))
    def start(self, first: RunSettings, second: RunSettings, batch: list[Task]) -> None:
        """Forget the last example: its runs are purged, and its hosts are long free."""
        for run in self.do(self.queue.runs()):
            self.do(self.queue.purge(run.id))
        for host in HOSTS:
            self.both("pause_host", host, ZERO)
            self.both("slow_host", host, ZERO)
        self.wait(HOUR)
        for name, chosen in (("first", first), ("second", second)):
            self.do(self.queue.start_run("books", settings=chosen, run_id=name))
            self.do(self.model.start_run("books", settings=chosen, run_id=name))
            self.runs.append(name)
            self.both("enqueue", name, batch)

    @rule(which=st.integers(0, 1), batch=st.lists(tasks, min_size=1, max_size=5))
    def enqueue(self, which: int, batch: list[Task]) -> None:
        self.both("enqueue", self.runs[which], batch)

    @rule(
        which=st.integers(0, 1),
        worker_id=st.sampled_from(WORKERS),
        limit=st.integers(1, 6),
        lease=tens,
        steps=st.sampled_from([None, None, None, ["list"], ["page", "list"], []]),
        partitions=st.sampled_from([None, None, None, ["ca"], ["", "ny"]]),
        late=pauses,
    )
    def claim(self, which: int, late: Any, **asked: Any) -> None:
        """Claim, perhaps after a while in which nobody reclaimed."""
        if late:
            self.wait(late)
        self.grant(run_id=self.runs[which], **asked)

    def grant(self, **asked: Any) -> Any:
        grant = self.do(self.queue.claim(**asked))
        self.model.allow(grant, **asked)
        self.leases += grant.leases
        return grant

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), late=pauses)
    def settle(self, data: st.DataObject, late: Any) -> None:
        """Settle current and old leases, perhaps one of them twice, perhaps too late."""
        if late:
            self.wait(late)
        ended = data.draw(st.lists(self.some_lease(), min_size=1, max_size=4).flatmap(endings))
        self.both("settle", ended)
        self.compare_hosts()

    @precondition(lambda self: self.leases)
    @rule(data=st.data(), lease=tens)
    def extend(self, data: st.DataObject, lease: Any) -> None:
        self.both("extend", data.draw(st.lists(self.some_lease(), min_size=1, max_size=3)), lease=lease)

    def some_lease(self) -> st.SearchStrategy[Lease]:
        """Return leases to choose from: mostly live ones, and some that are over."""
        live = [lease for lease in self.leases if self.model.books.held(lease)]
        return st.sampled_from(live * 3 + self.leases[-max(3, len(live)) :])

    @rule(delta=tens)
    def time_passes(self, delta: Any) -> None:
        self.wait(delta)

    @precondition(lambda self: any(row.state == "dead" for row in self.model.books.rows.values()))
    @rule(which=st.integers(0, 1), verb=st.sampled_from(["replay", "replay", "drop"]), data=st.data())
    def replay_or_drop(self, which: int, verb: str, data: st.DataObject) -> None:
        known = sorted(self.model.books.rows)
        ids = data.draw(st.one_of(st.none(), st.lists(st.sampled_from(known), max_size=4)))
        self.both(verb, self.runs[which], ids, where=data.draw(dead_filters))

    @rule(which=st.integers(0, 1))
    def pause_run(self, which: int) -> None:
        self.steer("pause", self.runs[which])

    @precondition(lambda self: any(run.state == "paused" for run in self.model.books.runs.values()))
    @rule()
    def resume_runs(self) -> None:
        for run_id in self.runs:
            self.steer("resume", run_id)

    def steer(self, verb: str, run_id: str) -> None:
        got, expected = (self.do(getattr(queue, verb)(run_id)) for queue in (self.queue, self.model))
        assert got.state is expected.state

    @rule(host=st.sampled_from(HOSTS), verb=st.sampled_from(["pause_host", "slow_host"]), duration=pauses)
    def steer_host(self, host: str, verb: str, duration: Any) -> None:
        self.both(verb, host, duration)
        self.compare_hosts()

    @invariant()
    def counts_agree(self) -> None:
        if self.runs:
            self.both("reclaim")
        for run_id in self.runs:
            self.both("stats", run_id)

    def teardown(self) -> None:
        """Work every run to its end, and compare all that is left."""
        if not self.runs:
            return
        for host in HOSTS:
            self.both("pause_host", host, ZERO)
            self.both("slow_host", host, ZERO)
        for run_id in self.runs:
            self.steer("resume", run_id)
            self.drain(run_id)
        for run_id in self.runs:
            self.compare_results(run_id)

    def drain(self, run_id: str) -> None:
        """Complete what is left; that must come to an end."""
        for _ in range(200):
            self.both("reclaim")
            grant = self.grant(worker_id="w1", run_id=run_id, limit=50, lease=TEN)
            fates = self.both("settle", [Done(lease) for lease in grant.leases])
            assert set(fates) <= {Fate.ACCEPTED}
            if grant.drained:
                break
            if not grant.leases:
                self.wait(TEN)
        stats = self.both("stats", run_id)
        assert stats.remaining == 0
        assert stats.tasks == len(list(self.model.books.of_run(run_id)))

    def compare_hosts(self) -> None:
        """Compare how the hosts are treated; what is left of a pause is rounded up to tens of seconds."""
        for run_id in self.runs:
            got, expected = (
                {
                    status.host: (status.delay, status.paused_for and -(-status.paused_for // TEN))
                    for status in self.do(every(queue.hosts(run_id)))
                }
                for queue in (self.queue, self.model)
            )
            assert got == expected, f"the hosts are {got}, in the model {expected}"

    def compare_results(self, run_id: str) -> None:
        for verb, told in RESULTS.items():
            got, expected = (
                sorted(map(told, self.do(every(getattr(queue, verb)(run_id)))))
                for queue in (self.queue, self.model)
            )
            assert got == expected, f"{verb} of run {run_id}"


RESULTS: dict[str, Any] = {
    "items": lambda item: (item.task_id, item.step, item.url or "", item.data),
    "rejects": lambda reject: (reject.task_id, reject.step, reject.url or "", reject.data, reject.reason),
    "dead": lambda dead: (
        dead.id,
        dead.attempts,
        dead.error,
        [(attempt.attempt, attempt.worker_id, attempt.error) for attempt in dead.history],
    ),
    "expired": lambda expired: (expired.id, expired.task.url or ""),
    "hosts": lambda status: (status.host, repr(status.counts), status.delay, status.paused_for),
}
