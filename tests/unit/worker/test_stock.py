from datetime import timedelta

import pytest

from shoal.core.model import SECOND, ZERO, Lease, Task
from shoal.worker.stock import CATCHING_UP, LONGEST_LAG, Stock

GAP = timedelta(milliseconds=200)


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


def test_without_a_gap_everything_may_start_at_once():
    stock = Stock(ZERO)
    stock.put([lease(number) for number in range(3)], claimed_at=10.0)
    assert [stock.pop(10.0).task_id[-1] for _ in range(3)] == ["0", "1", "2"]
    assert stock.pop(10.0) is None
    assert stock.next_due() is None


def test_a_lease_waits_for_its_start_and_the_lag():
    stock = Stock(GAP)
    stock.put([lease(start_in=GAP)], claimed_at=10.0)
    assert stock.next_due() == pytest.approx(10.2 + LONGEST_LAG)
    assert stock.pop(10.2) is None
    assert stock.pop(10.2 + LONGEST_LAG + 1e-9) is not None


def test_a_late_start_puts_off_the_next_one_of_its_host_and_of_no_other():
    stock = Stock(GAP)
    stock.put([lease(0), lease(1, start_in=GAP), lease(2, "http://b.example/", GAP)], claimed_at=10.0)
    late = 10.0 + 0.2 + LONGEST_LAG
    assert stock.pop(late).task_id.endswith("0")
    assert stock.pop(late + 1e-9).task_id.endswith("2")
    assert stock.pop(late + 1e-9) is None
    assert stock.next_due() == pytest.approx(late + 0.2 * CATCHING_UP)


def test_tasks_without_a_host_are_never_held_back():
    stock = Stock(GAP)
    stock.put([lease(0, None), lease(1, None)], claimed_at=10.0)
    now = 10.0 + LONGEST_LAG + 1e-9
    assert stock.pop(now) and stock.pop(now)


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
        assert stock.pop(number + 1.0)
    assert len(stock._last_start) <= 10
