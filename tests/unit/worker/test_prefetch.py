from collections import Counter
from datetime import timedelta
from itertools import pairwise
from random import Random

import pytest

from shoal.core.model import SECOND, ZERO, Task
from shoal.core.tasks import TIMER_ERROR
from shoal.scrape.settings.scraper import MAX_SLACK
from shoal.worker.prefetch import (
    CATCH_UP,
    MAX_LAG,
    RECENT_SPANS,
    TOLERANCE,
    PrefetchBuffer,
)
from tests.unit.builders import make_lease

GAP = timedelta(milliseconds=200)
GRACE = 0.2 * TOLERANCE
SLACK = MAX_SLACK.total_seconds()  # in this gap
MIN_GAP = (1 - CATCH_UP) * 0.2 - SLACK  # within a worker


def lease(number=0, url="http://a.example/", start_in=ZERO):
    return make_lease(
        Task(url=url), task_id=f"{number:032x}", start_in=start_in, deadline_in=start_in + SECOND
    )


def name(start):
    return start.lease.task_id[-1]


def test_without_a_gap_everything_may_start_at_once_and_is_never_late():
    buffer = PrefetchBuffer(ZERO)
    buffer.put([lease(number) for number in range(3)], claimed_at=10.0)
    starts = [buffer.pop(10.0) for _ in range(3)]
    assert [name(start) for start in starts] == ["0", "1", "2"]
    assert buffer.pop(10.0) is None and buffer.next_due() is None
    assert all(buffer.try_start(start, 1000.0) for start in starts)


def test_a_lease_waits_for_its_start_and_the_lag():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(start_in=GAP)], claimed_at=10.0)
    due = buffer.next_due()
    assert 10.2 + MAX_LAG <= due <= 10.2 + 2 * MAX_LAG
    assert buffer.pop(due - 1e-9) is None
    assert buffer.try_start(buffer.pop(due), due)


def test_a_lease_that_starts_early_sends_its_request_at_its_time_and_is_never_late():
    buffer = PrefetchBuffer(GAP, starts_early=True)
    buffer.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    assert buffer.next_due() >= 10.0  # not before the store has planned it
    first = buffer.pop(buffer.next_due())
    assert buffer.request_at(first) == first.due >= 10.0 + MAX_LAG
    assert buffer.try_start(first, first.due + 0.05, is_strict=True)  # within the burst
    assert buffer.pop(buffer.next_due()) is None  # as late as the first
    second = buffer.pop(buffer.next_due())
    assert buffer.request_at(second) == pytest.approx(first.due + 0.05 + MIN_GAP)
    for number in range(2 * RECENT_SPANS):
        assert not buffer.try_start(second, 11.0 + number, is_strict=True)
    assert buffer.is_always_late


def test_hosts_that_are_claimed_together_get_their_requests_apart_and_at_the_same_moment_on_every_worker():
    hosts = [lease(number, f"http://h{number}.example/") for number in range(100)]
    dues = [[start.due for start in _start_all(hosts)] for _ in range(2)]
    assert dues[0] == dues[1]
    per_slot = Counter(int((due - 10.0 - MAX_LAG) / MAX_LAG * 10) for due in dues[0])
    assert set(per_slot) == set(range(10))
    assert max(per_slot.values()) < 25


def _start_all(leases):
    buffer = PrefetchBuffer(GAP)
    buffer.put(leases, claimed_at=10.0)
    return [buffer.pop(20.0) for _ in leases]


def test_a_start_that_comes_too_late_is_given_up():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease()], claimed_at=10.0)
    start = buffer.pop(10.0 + 2 * MAX_LAG)
    assert not buffer.try_start(start, start.due + GRACE + 1e-6)
    assert buffer.try_start(start, start.due + GRACE - 1e-6)


def test_a_start_before_one_of_another_worker_is_not_late_within_the_claim():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0), lease(1, start_in=2 * GAP)], claimed_at=10.0)  # the store gave away the one between
    start = buffer.pop(10.0 + 2 * MAX_LAG)
    assert not buffer.try_start(start, start.due + GRACE + 1e-6)


def test_after_a_late_start_the_next_is_late_too_and_a_little_less():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0), lease(1, start_in=GAP), lease(2, "http://b.example/", GAP)], claimed_at=10.0)
    first = buffer.pop(buffer.next_due())
    sent = first.due + GRACE - 1e-9
    assert buffer.try_start(first, sent)
    second_due = first.due + 0.2 + 1e-9
    assert name(buffer.pop(second_due)) == "2"  # of another host
    assert buffer.pop(second_due) is None
    late = sent + MIN_GAP
    assert second_due < late < second_due + GRACE
    assert buffer.pop(late - 1e-6) is None
    assert buffer.try_start(buffer.pop(late), late)


def test_on_a_machine_that_is_always_late_starts_go_on_with_the_gap_kept_within_the_worker():
    buffer = PrefetchBuffer(GAP)
    count = 2 * RECENT_SPANS
    for number in range(count):  # each in a claim of its own: between any two of them may be another worker's
        buffer.put([lease(number, start_in=number * GAP)], claimed_at=10.0)
    sent = []
    while (due := buffer.next_due()) is not None:
        now = due + 0.1
        if (start := buffer.pop(now)) and buffer.try_start(start, now):
            sent.append(now)
    assert len(sent) > count // 4
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(sent))
    assert buffer.is_always_late


def test_a_late_start_is_used_if_the_next_one_is_this_workers_too_and_only_the_last_is_given_up():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(number, start_in=number * GAP) for number in range(4)], claimed_at=10.0)
    stall, sent, given_up = 0.1, [], []
    while (due := buffer.next_due()) is not None:
        now = due + stall
        stall = 0.0
        if start := buffer.pop(now):
            (sent if buffer.try_start(start, now) else given_up).append((name(start), now))
    assert [number for number, _ in sent] == ["0", "1", "2"]
    assert [number for number, _ in given_up] == ["3"]
    assert all(later - earlier >= MIN_GAP - 1e-9 for (_, earlier), (_, later) in pairwise(sent))
    assert not buffer.is_always_late


def test_a_late_start_is_given_up_if_the_page_of_the_next_one_is_cached():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    buffer.start_now(lease(1))
    assert buffer.pop(10.0).is_cached
    start = buffer.pop(buffer.next_due())
    assert not buffer.try_start(start, start.due + 2 * GRACE)


def test_a_start_that_its_timer_brings_a_little_too_early_is_used():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    first = buffer.pop(buffer.next_due())
    assert buffer.try_start(first, first.due + GRACE)
    now = first.due + GRACE + MIN_GAP + 1e-9
    assert buffer.try_start(buffer.pop(now), now - TIMER_ERROR)


def test_starts_that_became_due_in_one_stall_do_not_start_together():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(number, start_in=number * GAP) for number in range(4)], claimed_at=10.0)
    now = buffer.next_due() + 0.45
    assert name(buffer.pop(now)) == "0"
    assert buffer.pop(now) is None


@pytest.mark.parametrize("seed", range(5))
def test_workers_that_are_late_by_more_than_the_gap_keep_it_among_them(seed):
    random, buffers, sent, free, count = Random(seed), [PrefetchBuffer(GAP) for _ in range(3)], [], 10.0, 0
    for _ in range(100):
        buffer, size = random.choice(buffers), random.randint(2, 6)
        buffer.put([lease(count + place, start_in=place * GAP) for place in range(size)], claimed_at=free)
        count += size
        free += size * 0.2
        while (due := buffer.next_due()) is not None:
            now = due + random.random() * 0.3
            if (start := buffer.pop(now)) and buffer.try_start(start, now):
                sent.append(now)
    assert min(later - earlier for earlier, later in pairwise(sorted(sent))) >= 0.95 * 0.2
    assert len(sent) > count / 3
    assert not any(buffer.is_always_late for buffer in buffers)


def test_a_worker_that_was_suspended_starts_nothing_that_became_due_meanwhile():
    """Meanwhile others have got the hosts; that its starts were all late says nothing about the machine."""
    buffer = PrefetchBuffer(GAP)
    leases = [lease(number, f"http://h{number}.example/") for number in range(5 * RECENT_SPANS)]
    buffer.put(leases, claimed_at=10.0)
    resumed = 1000.0
    starts = [buffer.pop(resumed + number / 1000) for number in range(len(leases))]
    assert not any(buffer.try_start(start, resumed + number / 1000) for number, start in enumerate(starts))


def test_tasks_without_a_host_are_never_delayed():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0, None), lease(1, None)], claimed_at=10.0)
    starts = [buffer.pop(20.0), buffer.pop(20.0)]
    assert all(buffer.try_start(start, 20.0) for start in starts)


def test_clear_returns_the_leases_that_were_not_started():
    buffer = PrefetchBuffer(ZERO)
    buffer.put([lease(0), lease(1)], claimed_at=10.0)
    buffer.pop(10.0)
    assert [lease.task_id[-1] for lease in buffer.clear()] == ["1"]
    assert len(buffer) == 0


def test_hosts_that_are_long_past_are_forgotten(monkeypatch):
    monkeypatch.setattr("shoal.worker.prefetch.MAX_HOSTS", 10)
    buffer = PrefetchBuffer(GAP)
    for number in range(100):
        buffer.put([lease(number, f"http://h{number}.example/")], claimed_at=float(number))
        start = buffer.pop(number + 1.0)
        assert buffer.try_start(start, start.due)
    assert len(buffer._last_request) <= 10


def test_a_lease_whose_page_is_cached_waits_neither_for_its_start_nor_for_its_host():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    first = buffer.pop(10.0 + 2 * MAX_LAG)
    assert buffer.try_start(first, first.due)
    buffer.start_now(lease(1))
    assert len(buffer) == 1 and buffer.next_due() == 0.0
    assert name(buffer.pop(first.due)) == "1"
    assert len(buffer) == 0 and buffer.pop(20.0) is None


def test_start_now_does_nothing_for_a_started_lease():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease()], claimed_at=10.0)
    assert buffer.pop(11.0)
    buffer.start_now(lease())
    assert len(buffer) == 0 and buffer.next_due() is None


def test_a_lease_that_starts_now_is_cleared_once():
    buffer = PrefetchBuffer(GAP)
    buffer.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    buffer.start_now(lease(1))
    assert sorted(held.task_id[-1] for held in buffer.clear()) == ["0", "1"]
    assert len(buffer) == 0 and buffer.next_due() is None
