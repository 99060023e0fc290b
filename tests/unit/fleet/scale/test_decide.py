"""How many workers a run should have: tables, and what holds for every load."""

from datetime import timedelta
from math import ceil, inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidSetting
from shoal.fleet.scale.decide import RunLoad, ScaleBounds, apply_cooldown, decide_workers

SECOND = timedelta(seconds=1)


@pytest.mark.parametrize(
    ("load", "workers"),
    [
        (RunLoad(), 0),
        (RunLoad(ready=1), 1),
        (RunLoad(ready=500), 1),
        (RunLoad(ready=501), 2),
        (RunLoad(ready=300, leased=300), 2),
        (RunLoad(leased=1), 1),
        (RunLoad(ready=1_000_000), 10),
        (RunLoad(later=1_000_000), 0),  # a backlog that no worker can work on
        (RunLoad(ready=5_000, hosts=1, usable=0.1, rate=1), 1),
        (RunLoad(ready=5_000, hosts=30, usable=3.0, rate=30), 3),
        (RunLoad(ready=5_000, hosts=31, usable=3.1, rate=31), 4),
        (RunLoad(ready=100, hosts=900, usable=90.0, rate=900), 1),
    ],
)
def test_the_target_follows_the_ready_tasks(load, workers):
    assert decide_workers(load, ScaleBounds(most=10)).workers == workers


def test_fifty_workers_on_one_host_are_too_many():
    found = decide_workers(RunLoad(ready=100_000, hosts=1, usable=0.1, rate=1), ScaleBounds(most=50))
    assert (found.workers, found.wasted) == (1, 49)
    assert found.why.endswith("but 1 host at 1 pages/s can't keep more than 1 busy")


def test_the_reason_names_the_bound():
    assert "--max is 2" in decide_workers(RunLoad(ready=5_000), ScaleBounds(most=2)).why
    assert "delayed: 7" in decide_workers(RunLoad(later=7), ScaleBounds(most=2)).why


def test_the_fewest_are_there_whatever_the_load_is():
    assert decide_workers(RunLoad(), ScaleBounds(most=5, least=2)).workers == 2
    assert (
        decide_workers(
            RunLoad(ready=9_000, usable=0.1, rate=1, hosts=1), ScaleBounds(most=5, least=2)
        ).workers
        == 2
    )


@pytest.mark.parametrize(
    ("given", "option"),
    [
        ({"most": 0}, "--max"),
        ({"most": 2, "least": 3}, "--min"),
        ({"most": 2, "least": -1}, "--min"),
        ({"most": 2, "tasks_per_worker": 0}, "--tasks-per-worker"),
        ({"most": 2, "cooldown": -SECOND}, "--cooldown"),
    ],
)
def test_bounds_that_make_no_sense_are_refused_by_name(given, option):
    with pytest.raises(InvalidSetting, match=option):
        ScaleBounds(**given)


def followed(wishes, cooldown, every=SECOND):
    """Return the decisions for these targets, one after the other."""
    memory, found = (), []
    for number, wanted in enumerate(wishes):
        target, memory = apply_cooldown(number * every, wanted, memory, cooldown)
        found.append(target)
    return found


def test_more_come_at_once_and_fewer_after_a_cool_down():
    assert followed([0, 5, 5, 2, 2, 2, 2, 0, 0, 0, 0], 3 * SECOND) == [0, 5, 5, 5, 5, 2, 2, 2, 2, 0, 0]


def test_a_fluctuating_load_stops_no_worker():
    assert followed([4, 5, 4, 5, 4, 5, 4], 3 * SECOND) == [4, 5, 5, 5, 5, 5, 5]


loads = st.builds(
    RunLoad,
    ready=st.integers(0, 10**6),
    leased=st.integers(0, 10**5),
    hosts=st.integers(0, 100),
    rate=st.just(1.0),
    usable=st.one_of(st.just(inf), st.floats(0, 100)),
)
bounds = st.builds(
    lambda least, more, each: ScaleBounds(most=least + more, least=least, tasks_per_worker=each),
    st.integers(0, 20),
    st.integers(1, 100),
    st.integers(1, 5_000),
)


@given(loads, bounds)
def test_a_target_is_always_within_bounds_and_never_more_than_useful(load, bounds):
    found = decide_workers(load, bounds)
    assert bounds.least <= found.workers <= bounds.most
    assert found.workers <= max(bounds.least, ceil(load.under_way / bounds.tasks_per_worker))
    if load.most_useful is not None:
        assert found.workers <= max(bounds.least, load.most_useful)


@given(
    st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=60),
    st.integers(0, 60),
)
def test_it_never_goes_down_within_a_cool_down_of_going_up(steps, seconds):
    cooldown, now, memory = seconds * SECOND, timedelta(0), ()
    last, risen = 0, None
    for wanted, wait in steps:
        now += wait * SECOND
        target, memory = apply_cooldown(now, wanted, memory, cooldown)
        assert target >= wanted  # never too few
        if target > last:
            assert target == wanted
            risen = now
        if target < last and risen is not None:
            assert now - risen >= cooldown
        assert len(memory) <= 41  # the history does not grow with time
        last = target


@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 60))
def test_a_steady_load_is_followed_within_one_cool_down(before, after, seconds):
    targets = followed([before, *[after] * (seconds + 1)], seconds * SECOND)
    assert targets[-1] == after
