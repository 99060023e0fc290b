from collections import Counter
from datetime import timedelta
from itertools import pairwise

from shoal.core.model import SECOND, ZERO, Lease, Task
from shoal.worker.stock import CATCH_UP, LONGEST_LAG, MOST_RECENT, TOLERANCE, Stock

GAP = timedelta(milliseconds=200)
GRACE = 0.2 * TOLERANCE


def lease(number=0, url="http://a.example/", start_in=ZERO):
    return Lease(
        run_id="r",
        task_id=f"{number:032x}",
        token=1,
        task=Task(url=url),
        attempt=1,
        start_in=start_in,
        deadline_in=start_in + SECOND,
    )


def name(start):
    return start.lease.task_id[-1]


def test_without_a_gap_everything_may_start_at_once_and_is_never_late():
    stock = Stock(ZERO)
    stock.put([lease(number) for number in range(3)], claimed_at=10.0)
    starts = [stock.pop(10.0) for _ in range(3)]
    assert [name(start) for start in starts] == ["0", "1", "2"]
    assert stock.pop(10.0) is None and stock.next_due() is None
    assert all(stock.in_time(start, 1000.0) for start in starts)


def test_a_lease_waits_for_its_start_and_the_lag():
    stock = Stock(GAP)
    stock.put([lease(start_in=GAP)], claimed_at=10.0)
    due = stock.next_due()
    assert 10.2 + LONGEST_LAG <= due <= 10.2 + 2 * LONGEST_LAG
    assert stock.pop(due - 1e-9) is None
    assert stock.in_time(stock.pop(due), due)


def test_hosts_that_are_claimed_together_are_asked_apart_and_each_at_the_same_moment_by_every_worker():
    hosts = [lease(number, f"http://h{number}.example/") for number in range(100)]
    dues = [[start.due for start in _started(hosts)] for _ in range(2)]
    assert dues[0] == dues[1]
    per_slot = Counter(int((due - 10.0 - LONGEST_LAG) / LONGEST_LAG * 10) for due in dues[0])
    assert set(per_slot) == set(range(10))
    assert max(per_slot.values()) < 25


def _started(leases):
    stock = Stock(GAP)
    stock.put(leases, claimed_at=10.0)
    return [stock.pop(20.0) for _ in leases]


def test_a_start_that_comes_too_late_is_given_up():
    stock = Stock(GAP)
    stock.put([lease()], claimed_at=10.0)
    start = stock.pop(10.0 + 2 * LONGEST_LAG)
    assert not stock.in_time(start, start.due + GRACE + 1e-6)
    assert stock.in_time(start, start.due + GRACE - 1e-6)


def test_after_a_late_start_the_next_is_late_too_and_a_little_less():
    stock = Stock(GAP)
    stock.put([lease(0), lease(1, start_in=GAP), lease(2, "http://b.example/", GAP)], claimed_at=10.0)
    first = stock.pop(10.0 + 2 * LONGEST_LAG)
    asked = first.due + GRACE - 1e-9
    assert stock.in_time(first, asked)
    second_due = first.due + 0.2 + 1e-9
    assert name(stock.pop(second_due)) == "2"  # of another host
    assert stock.pop(second_due) is None
    late = asked + (1 - CATCH_UP) * 0.2
    assert second_due < late < second_due + GRACE
    assert stock.in_time(stock.pop(late), late)


def test_on_a_machine_that_is_always_late_starts_go_on_with_the_gap_kept_within_the_worker():
    stock = Stock(GAP)
    count = 2 * MOST_RECENT
    stock.put([lease(number, start_in=number * GAP) for number in range(count)], claimed_at=10.0)
    asked = []
    while (due := stock.next_due()) is not None:
        now = due + 0.1
        if (start := stock.pop(now)) and stock.in_time(start, now):
            asked.append(now)
    assert len(asked) > count // 4
    assert all(later - earlier >= 0.19 for earlier, later in pairwise(asked))


def test_a_worker_that_was_stopped_asks_for_none_of_what_it_slept_through():
    """Meanwhile others have got the hosts; that its starts were all late says nothing of the machine."""
    stock = Stock(GAP)
    leases = [lease(number, f"http://h{number}.example/") for number in range(5 * MOST_RECENT)]
    stock.put(leases, claimed_at=10.0)
    woken = 1000.0
    starts = [stock.pop(woken + number / 1000) for number in range(len(leases))]
    assert not any(stock.in_time(start, woken + number / 1000) for number, start in enumerate(starts))


def test_tasks_without_a_host_are_never_held_back():
    stock = Stock(GAP)
    stock.put([lease(0, None), lease(1, None)], claimed_at=10.0)
    starts = [stock.pop(20.0), stock.pop(20.0)]
    assert all(stock.in_time(start, 20.0) for start in starts)


def test_what_was_not_started_can_be_taken_out():
    stock = Stock(ZERO)
    stock.put([lease(0), lease(1)], claimed_at=10.0)
    stock.pop(10.0)
    assert [kept.task_id[-1] for kept in stock.empty()] == ["1"]
    assert len(stock) == 0


def test_hosts_that_are_long_past_are_forgotten(monkeypatch):
    monkeypatch.setattr("shoal.worker.stock.FORGET_AFTER", 10)
    stock = Stock(GAP)
    for number in range(100):
        stock.put([lease(number, f"http://h{number}.example/")], claimed_at=float(number))
        start = stock.pop(number + 1.0)
        assert stock.in_time(start, start.due)
    assert len(stock._last_asked) <= 10


def test_a_lease_whose_page_is_at_hand_waits_neither_for_its_start_nor_for_its_host():
    stock = Stock(GAP)
    stock.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    first = stock.pop(10.0 + 2 * LONGEST_LAG)
    assert stock.in_time(first, first.due)
    stock.hasten(lease(1))
    assert len(stock) == 1 and stock.next_due() == 0.0
    assert name(stock.pop(first.due)) == "1"
    assert len(stock) == 0 and stock.pop(20.0) is None


def test_a_lease_that_was_started_cannot_be_hastened():
    stock = Stock(GAP)
    stock.put([lease()], claimed_at=10.0)
    assert stock.pop(11.0)
    stock.hasten(lease())
    assert len(stock) == 0 and stock.next_due() is None


def test_a_hastened_lease_is_handed_back_once():
    stock = Stock(GAP)
    stock.put([lease(0), lease(1, start_in=GAP)], claimed_at=10.0)
    stock.hasten(lease(1))
    assert sorted(held.task_id[-1] for held in stock.empty()) == ["0", "1"]
    assert len(stock) == 0 and stock.next_due() is None
