"""How many tasks of a run are ready, and how many workers its hosts can keep busy."""

from datetime import timedelta
from math import inf

import pytest

from shoal.core.model import Counts, RunSettings, RunState, Stats
from shoal.fleet.scale.decide import PACE, RunLoad, load, pace_of
from tests.unit.builders import make_host, make_run

SECOND = timedelta(seconds=1)


def run(state=RunState.RUNNING, **settings):
    return make_run(scraper="s", settings=RunSettings(**settings), state=state)


def host(name, pending=0, *, leased=0, delayed=0, delay=None, paused=None):
    counts = Counts(pending=pending, leased=leased, delayed=delayed)
    return make_host(name, counts=counts, delay=delay, paused_for=paused)


def of(run, *hosts, extra=0):
    """Return the load of a run with these hosts, and some tasks that have no host."""
    sums = {
        name: sum(getattr(one.counts, name) for one in hosts) for name in ("pending", "leased", "delayed")
    }
    sums["pending"] += extra
    return load(run, Stats(**sums), hosts, pace=10.0)


def test_one_host_at_one_a_second_keeps_a_tenth_of_a_worker_busy():
    found = of(run(), host("a", 1_000))
    assert (found.ready, found.usable, found.most_useful, found.rate) == (1_000, 0.1, 1, 1.0)
    assert found.slowest == 1_000 * SECOND


def test_many_hosts_keep_many_workers_busy():
    assert of(run(), *(host(f"h{n}", 9) for n in range(95))).most_useful == 10


def test_a_paused_host_has_nothing_ready_and_keeps_no_worker_busy():
    found = of(run(), host("a", 70, paused=9 * SECOND), host("b", 30))
    assert (found.ready, found.later, found.most_useful) == (30, 70, 1)


def test_a_slowed_host_counts_as_slow_as_it_is():
    assert of(run(host_delay=SECOND / 10), host("a", 50, delay=5 * SECOND)).rate == pytest.approx(0.2)


def test_without_a_gap_a_host_has_at_most_as_many_workers_as_it_may_have_leases():
    assert of(run(host_delay=timedelta(0), per_host=16), host("a", 1_000)).most_useful == 16
    assert of(run(host_delay=timedelta(0), per_host=16), host("a", 3)).most_useful == 3


def test_tasks_without_a_host_are_always_ready_and_know_no_limit():
    found = of(run(), host("a", 10), extra=90)
    assert (found.ready, found.usable, found.most_useful) == (100, inf, None)


def test_tasks_that_end_while_the_hosts_are_read_are_not_taken_for_tasks_without_a_host():
    before = Stats(pending=100, leased=4, completed=6)
    counts = Counts(pending=90, leased=4, completed=16)
    later = make_host("a", counts=counts)
    assert load(run(), before, [later], pace=10.0).most_useful == 1


@pytest.mark.parametrize("state", [RunState.PAUSED, RunState.CANCELLED])
def test_a_run_that_hands_out_nothing_has_nothing_ready(state):
    found = of(run(state), host("a", 10, leased=2))
    assert (found.ready, found.leased, found.later) == (0, 2, 10)


def test_delayed_tasks_wait():
    found = of(run(), host("a", delayed=8))
    assert (found.ready, found.later, found.remaining, found.most_useful) == (0, 8, 8, 0)


def test_an_empty_run_needs_no_worker():
    assert of(run()) == RunLoad(usable=0, rate=0)


def test_a_worker_that_pauses_does_one_task_and_rests():
    assert pace_of(None) == PACE
    assert pace_of((timedelta(seconds=8), timedelta(seconds=20)), pace=10.0) == pytest.approx(1 / 14.1)
