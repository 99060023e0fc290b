"""Partition assignment: every partition has a worker, the work is balanced, and few partitions move."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import Counts
from shoal.fleet.partitions.plan import assign, assign_helpers, assign_seats, is_same, next_plan
from shoal.fleet.partitions.table import check_table, read_table, read_table_file
from shoal.worker.partitions import Holding, PartitionPlan

NAMES = [f"p{number:02}" for number in range(60)]
WORKERS = [f"w{number:02}" for number in range(60)]

weights = st.dictionaries(st.sampled_from(NAMES), st.integers(0, 1_000))
pools = st.lists(st.sampled_from(WORKERS), min_size=1, max_size=20, unique=True)


def loads(assignment, weights, workers):
    found = dict.fromkeys(workers, 0)
    for name, worker in assignment.items():
        found[worker] += weights[name]
    return found


def moved(before, after):
    return {name for name, worker in after.items() if before.get(name) != worker}


def counted(weights, leased=0):
    return {name: Counts(pending=weight, leased=leased) for name, weight in weights.items()}


# The plan itself


@given(weights, pools)
def test_every_partition_is_served_by_one_worker_that_is_there(weights, workers):
    plan = assign(weights, workers, {})
    assert plan.keys() == weights.keys()
    assert set(plan.values()) <= set(workers)


@given(weights, pools)
def test_no_worker_has_more_than_a_fair_share_and_one_partition(weights, workers):
    found = loads(assign(weights, workers, {}), weights, workers)
    fair = sum(weights.values()) / len(workers)
    assert max(found.values()) <= fair + max(weights.values(), default=0)


@given(weights, pools, pools)
def test_no_worker_is_idle_while_another_has_two_partitions_with_work(weights, before, workers):
    plan = assign(weights, workers, assign(weights, before, {}))
    live = {worker: [n for n, owner in plan.items() if owner == worker and weights[n]] for worker in workers}
    assert all(live.values()) or all(len(names) < 2 for names in live.values())


@given(weights, pools)
def test_nothing_moves_while_nothing_changes(weights, workers):
    plan = assign(weights, workers, {})
    assert assign(weights, workers, plan) == plan


@given(weights, pools, st.data())
def test_when_workers_leave_only_their_partitions_move_or_go_to_an_idle_one(weights, workers, data):
    before = assign(weights, workers, {})
    gone = set(data.draw(st.lists(st.sampled_from(workers), max_size=len(workers) - 1, unique=True)))
    staying = [worker for worker in workers if worker not in gone]
    after = assign(weights, staying, before)
    idle = {worker for worker, load in loads(before, weights, workers).items() if not load}
    for name in moved(before, after):
        assert before[name] in gone or after[name] in idle


@given(weights, pools, st.data())
def test_a_new_worker_is_the_only_one_that_gets_new_partitions(weights, workers, data):
    before = assign(weights, workers, {})
    newcomer = data.draw(st.sampled_from([worker for worker in WORKERS if worker not in workers]))
    after = assign(weights, [*workers, newcomer], before)
    others_idle = any(not load for load in loads(before, weights, workers).values())
    if not others_idle:
        assert {after[name] for name in moved(before, after)} <= {newcomer}
    most = max(loads(before, weights, workers).values())
    assert max(loads(after, weights, [*workers, newcomer]).values()) <= most


def fewest_moves(before, workers, count):
    """Return how many partitions of the same weight must move at least."""
    had = sorted((sum(owner == worker for owner in before.values()) for worker in workers), reverse=True)
    least, more = divmod(count, len(workers))
    targets = [least + (number < more) for number in range(len(workers))]
    return sum(max(0, target - has) for target, has in zip(targets, had, strict=True))


@given(st.integers(1, 60), st.lists(pools, min_size=2, max_size=6))
def test_equal_partitions_stay_balanced_with_the_fewest_moves_when_workers_change(count, pools):
    equal, plan = dict.fromkeys(NAMES[:count], 1), {}
    for workers in pools:
        before, plan = plan, assign(equal, workers, plan)
        found = loads(plan, equal, workers).values()
        assert max(found) - min(found) <= 1
        assert len(moved(before, plan)) == fewest_moves(before, workers, count)


@given(weights, pools, pools)
def test_an_idle_worker_helps_the_largest_partition_and_stays_there(weights, workers, before):
    plan = assign(weights, workers, {})
    helpers = assign_helpers(
        weights, workers, plan, assign_helpers(weights, before, assign(weights, before, {}), {})
    )
    idle = {worker for worker, load in loads(plan, weights, workers).items() if not load}
    assert set(helpers) == (idle if any(weights.values()) else set())
    assert all(weights[name] and plan[name] != worker for worker, name in helpers.items())
    assert assign_helpers(weights, workers, plan, helpers) == helpers


# From plan to plan


def test_a_seat_is_kept_and_a_new_member_gets_the_first_free_one():
    assert assign_seats([], {"b", "a"}) == ["a", "b"]
    assert assign_seats(["a", "b", "c"], {"a", "c"}) == ["a", "", "c"]
    assert assign_seats(["a", "", "c"], {"a", "c", "z"}) == ["a", "z", "c"]
    assert assign_seats(["a", "b"], {"a"}) == ["a"]


def test_in_exclusive_mode_a_partition_is_taken_away_before_it_is_given():
    waiting = counted({"x": 5, "y": 5})
    first = next_plan(PartitionPlan(exclusive=True), ["a"], waiting, 0)
    assert first.holdings == {"x": Holding(["a"]), "y": Holding(["a"])}
    second = next_plan(first, ["a", "b"], counted({"x": 5, "y": 5}, leased=2), 3)
    (moving,) = [name for name, holding in second.holdings.items() if holding.coming]
    assert second.holdings[moving] == Holding(coming="b")
    assert is_same(second, next_plan(second, ["a", "b"], counted({"x": 5, "y": 5}, leased=1), 1))
    third = next_plan(second, ["a", "b"], waiting, 1)
    assert third.holdings[moving] == Holding(["b"])


def test_what_a_dead_worker_still_holds_is_given_to_no_other():
    plan = PartitionPlan(
        exclusive=True, seats=["a", "b"], holdings={"x": Holding(["a"]), "y": Holding(["b"])}
    )
    counts = {"x": Counts(pending=5, leased=1), "y": Counts(pending=5)}
    for _ in range(3):
        plan = next_plan(plan, ["b"], counts, 0)
        assert plan.holdings == {"x": Holding(coming="b"), "y": Holding(["b"])}
    assert next_plan(plan, ["b"], counted({"x": 5, "y": 5}), 0).holdings["x"] == Holding(["b"])


def test_a_partition_that_was_never_planned_waits_for_the_leases_that_others_hold():
    plan = next_plan(PartitionPlan(exclusive=True), ["a"], counted({"x": 5}, leased=1), 0)
    assert plan.holdings == {"x": Holding(coming="a")}


def test_in_auto_mode_it_is_given_at_once_and_shared_by_idle_workers():
    plan = next_plan(PartitionPlan(), ["a", "b", "c"], counted({"x": 5, "y": 50}, leased=1), 0)
    assert sorted(len(holding.workers) for holding in plan.holdings.values()) == [1, 2]
    assert len(plan.holdings["y"].workers) == 2
    later = next_plan(plan, ["a", "b", "c"], counted({"x": 5, "y": 50}), 2)
    assert is_same(plan, later) and later.holdings["x"].held == 2


events = st.lists(
    st.tuples(st.sets(st.sampled_from(WORKERS[:8]), min_size=1), st.integers(0, 3), st.booleans()),
    max_size=12,
)


@given(events)
def test_no_partition_ever_has_two_owners_or_one_beside_a_foreign_lease(events):
    """Leases are held at random; each holder was the owner when it claimed."""
    plan, holders = PartitionPlan(exclusive=True), {}
    for members, seed, settles in events:
        if settles:
            holders = {}
        counts = {name: Counts(pending=seed + 1, leased=name in holders) for name in NAMES[:6]}
        plan = next_plan(plan, members, counts, 0)
        for name, holding in plan.holdings.items():
            assert len(holding.workers) <= 1
            assert holding.workers in ([], [holders.get(name, *holding.workers)])
        for number, (name, holding) in enumerate(plan.holdings.items()):
            if holding.workers and (number + seed) % 2:
                holders[name] = holding.workers[0]


@given(st.sets(st.sampled_from(WORKERS), min_size=1), st.booleans())
def test_a_plan_is_stable_after_two_updates(members, exclusive):
    counts = counted(dict.fromkeys(NAMES[:51], 3))
    plan = next_plan(next_plan(PartitionPlan(exclusive=exclusive), members, counts, 0), members, counts, 0)
    assert is_same(plan, next_plan(plan, members, counts, 0))
    assert all(holding.workers for holding in plan.holdings.values())


# Written tables

TABLE = {"1": ["CA", "NV"], "2": ["TX"]}


def test_a_table_decides_while_its_workers_are_there_and_others_help_out_when_not():
    start = PartitionPlan(exclusive=True, homes=read_table(TABLE, "t.toml"))
    counts = counted({"CA": 1, "NV": 1, "TX": 99})
    both = next_plan(start, ["a", "b"], counts, 0)
    assert (both.of("a"), both.of("b")) == ({"CA", "NV"}, {"TX"})
    alone = next_plan(next_plan(both, ["b"], counts, 0), ["b"], counts, 0)
    assert alone.of("b") == {"CA", "NV", "TX"}
    again = next_plan(next_plan(alone, ["b", "c"], counts, 0), ["b", "c"], counts, 0)
    assert (again.of("c"), again.of("b")) == ({"CA", "NV"}, {"TX"})


@pytest.mark.parametrize(
    ("given_table", "words"),
    [
        ({"1": ["CA"], "2": ["CA"]}, ["'CA'", "worker 1", "worker 2"]),
        ({"1": ["CA", "CA"]}, ["'CA'", "twice", "worker 1"]),
        ({"x": ["CA"]}, ["worker 'x'", "whole number"]),
        ({"0": ["CA"]}, ["worker '0'"]),
        ({"1": 7}, ["worker 1", "list"]),
        ({}, ['1 = ["CA", "NV"]']),
        (["CA"], ['1 = ["CA", "NV"]']),
    ],
)
def test_a_table_that_makes_no_sense_is_refused(given_table, words):
    with pytest.raises(InvalidSetting) as caught:
        read_table(given_table, "t.toml")
    assert all(word in str(caught.value) for word in ["t.toml", *words])


def test_a_partition_that_is_missing_or_unknown_is_named_with_what_to_write():
    homes = read_table(TABLE, "t.toml")
    check_table(homes, ["CA", "NV", "TX"], "run r1")
    with pytest.raises(
        InvalidSetting, match=r"'OR' and 1 more of run r1 to no worker.*2 = \[\"OR\", \"WA\"\]"
    ):
        check_table(homes, ["CA", "NV", "TX", "WA", "OR"], "run r1")
    with pytest.raises(
        InvalidSetting, match=r"'TX' to worker 2, but run r1 has no such partition\. Did you mean 'TXX'"
    ):
        check_table(homes, ["CA", "NV", "TXX"], "run r1")
    with pytest.raises(InvalidSetting, match=r"no such partition\. Partitions without a worker: 'WY'\."):
        check_table(homes, ["CA", "NV", "WY"], "run r1")
    with pytest.raises(InvalidSetting, match=r"run r1 has no such partition\. It has no tasks yet"):
        check_table(homes, [], "run r1")


@pytest.mark.parametrize(
    ("name", "text"),
    [("t.toml", '1 = ["CA", "NV"]\n2 = ["TX"]'), ("t.json", '{"1": ["CA","NV"], "2": "TX"}')],
)
def test_a_table_is_read_from_a_file(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert read_table_file(tmp_path / name) == {"CA": 1, "NV": 1, "TX": 2}


def test_a_file_that_cannot_be_read_is_named(tmp_path):
    (tmp_path / "t.toml").write_text("1 = [")
    for name in ("t.toml", "nothing.toml"):
        with pytest.raises(InvalidInput, match=name):
            read_table_file(tmp_path / name)
