"""Which tasks a claim takes, decided from what it has read."""

import pytest

from shoal.queue.sqlite.claim import (
    PRIORITY_SHIFT,
    DueHostQueue,
    PendingTask,
    bursts,
    choose,
    count_host_queues_needed,
)

SECOND = 1_000_000


def host_queue(id, host=None, priority=0, pending=10, delay=0, live=0):
    return DueHostQueue(id, 1, id if host is None else host, priority, pending, delay, live, 0)


def tasks(*fronts):
    """Return the front tasks of host queues, given by their priorities, in the store's order."""
    found = [
        PendingTask(position, (9 - priority) << PRIORITY_SHIFT | position * 100 + number, 0)
        for position, priorities in enumerate(fronts)
        for number, priority in enumerate(priorities)
    ]
    return sorted(found, key=lambda task: (task.place >> PRIORITY_SHIFT, task.position, task.place))


def taken(picks):
    return [(pick.host_queue.id, pick.start_in) for pick in picks]


@pytest.mark.parametrize(
    ("run_delay", "own_delay", "live", "limit", "room"),
    [
        (0, 0, 0, 50, 4),
        (0, 0, 3, 50, 1),
        (0, 0, 0, 2, 2),
        (SECOND, 0, 0, 50, 1),
        (SECOND // 4, 0, 0, 50, 4),
        (SECOND // 2, 0, 0, 50, 2),
        (0, SECOND, 0, 50, 1),
        (SECOND // 4, SECOND // 2, 0, 50, 2),
    ],
)
def test_a_host_gives_what_its_gap_and_its_free_slots_allow(run_delay, own_delay, live, limit, room):
    found = bursts([host_queue(1, delay=own_delay, live=live)], run_delay, per_host=4, limit=limit)
    assert found[1].room == room


def test_tasks_without_a_host_know_no_gap():
    found = bursts([host_queue(1, host=0, live=99)], SECOND, per_host=1, limit=50)
    assert (found[0].gap, found[0].room) == (0, 50)


def test_host_queues_are_read_until_they_hold_enough():
    host_queues = [host_queue(1, pending=2), host_queue(2, pending=9), host_queue(3), host_queue(4)]
    hosts = bursts(host_queues, 0, per_host=3, limit=50)
    assert count_host_queues_needed(host_queues, hosts, 2) == 1
    assert count_host_queues_needed(host_queues, hosts, 5) == 2
    assert count_host_queues_needed(host_queues, hosts, 6) == 3
    assert count_host_queues_needed(host_queues, hosts, 99) == 4


def test_host_queues_of_one_host_share_what_it_may_give():
    host_queues = [host_queue(1, host=7), host_queue(2, host=7), host_queue(3)]
    hosts = bursts(host_queues, 0, per_host=3, limit=50)
    assert count_host_queues_needed(host_queues, hosts, 4) == 3
    picks = choose(tasks([0, 0, 0], [0, 0, 0], [0]), host_queues, hosts, 50, 0)
    assert taken(picks) == [(1, 0), (1, 0), (1, 0), (3, 0)]


def test_the_highest_priority_of_all_hosts_goes_first():
    host_queues = [host_queue(1, priority=9), host_queue(2, priority=5)]
    hosts = bursts(host_queues, 0, per_host=9, limit=3)
    picks = choose(tasks([9, 1], [5, 5]), host_queues, hosts, 3, 0)
    assert [pick.host_queue.id for pick in picks] == [1, 2, 2]


def test_a_burst_starts_its_tasks_one_gap_after_another():
    host_queues = [host_queue(1, priority=9)]
    hosts = bursts(host_queues, SECOND // 4, per_host=3, limit=50)
    picks = choose(tasks([9, 5, 0]), host_queues, hosts, 50, 0)
    assert [pick.start_in for pick in picks] == [0, SECOND // 4, SECOND // 2]


def test_nothing_below_the_lowest_priority_that_was_read_is_taken():
    host_queues = [host_queue(1, priority=9), host_queue(2, priority=5)]
    hosts = bursts(host_queues, 0, per_host=9, limit=50)
    picks = choose(tasks([9, 5, 4], [5, 0]), host_queues, hosts, 50, 5)
    assert [pick.host_queue.id for pick in picks] == [1, 1, 2]
