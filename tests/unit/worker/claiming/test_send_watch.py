import asyncio
from itertools import count

import pytest

from shoal.core.model import SECOND, ZERO, Lease, Task
from shoal.worker.claiming.send_watch import MAX_EXCESS, MAX_HOSTS, REGULAR, ResponseTimes, SendWatch
from shoal.worker.prefetch import ScheduledLease

GAP = 0.1
NUMBERS = count()


class Bench:
    """A clock that the test moves, and what was recorded."""

    def __init__(self, monkeypatch):
        self.now, self.waited, self.sent = 100.0, 7.0, []
        self.timers = []
        monkeypatch.setattr("shoal.worker.claiming.send_watch.exact_time", lambda: self.now)
        monkeypatch.setattr("shoal.worker.claiming.send_watch.call_at", self._call_at)
        self.watch = SendWatch(lambda _, moment: self.sent.append(moment), lambda: self.waited)

    def _call_at(self, moment, callback):
        self.timers.append((moment, callback))
        return asyncio.get_running_loop().call_later(3600, callback)

    async def request(self, *, host="a.example", held_up=0.0, waits=0.0, takes=0.001):
        """Send a request that gets a response, and return how late it left by the record."""
        start = a_start(host)
        self.watch.begin(start, GAP)
        looked_at = self.now
        self.now += held_up
        await asyncio.sleep(0)
        self.now += waits + takes
        self.waited += waits
        self.watch.end(start)
        return self.sent[-1] - looked_at


@pytest.fixture
async def bench(monkeypatch):
    return Bench(monkeypatch)


def a_start(host="a.example"):
    task = Task(url=f"http://{host}/")
    return ScheduledLease(
        Lease(
            run_id="r",
            task_id=f"{next(NUMBERS):032x}",
            token=1,
            task=task,
            attempt=1,
            start_in=ZERO,
            deadline_in=SECOND,
        ),
        due=100.0,
    )


async def test_a_request_that_is_handed_over_late_has_left_late(bench):
    await bench.request()
    assert await bench.request(held_up=0.02) == pytest.approx(0.02)


async def test_a_request_whose_client_waits_for_a_processor_has_left_after_that(bench):
    for _ in range(100):  # responses that vary say nothing themselves
        await bench.request(takes=0.001)
        await bench.request(takes=0.04)
    assert await bench.request(waits=0.01) == pytest.approx(0.01)


async def test_a_regular_host_shows_what_held_a_request_up_for_another_reason(bench):
    for _ in range(5):
        await bench.request(takes=0.02)
    assert await bench.request(takes=0.032) == pytest.approx(0.012)
    assert await bench.request(takes=0.02) == pytest.approx(0.0, abs=0.001)


async def test_a_request_with_a_response_has_left_before_it(bench):
    await bench.request()
    start = a_start()
    bench.watch.begin(start, GAP)
    await asyncio.sleep(0)
    bench.now += 0.003
    bench.waited += 0.05  # of other requests, at the same time
    bench.watch.end(start)
    assert bench.sent[-1] == pytest.approx(bench.now)


async def test_a_request_without_a_response_has_left_when_its_client_was_running_again(bench):
    start = a_start()
    bench.watch.begin(start, GAP)
    await asyncio.sleep(0)
    handed_at = bench.now
    ((moment, give_up),) = bench.timers
    assert moment == pytest.approx(handed_at + GAP / 2)
    bench.now, bench.waited = moment, bench.waited + 0.015
    give_up()
    assert bench.sent == [pytest.approx(handed_at + 0.015)]
    bench.watch.end(start)
    assert len(bench.sent) == 1


def test_the_first_response_of_a_host_may_have_been_late_as_a_whole():
    times = ResponseTimes()
    assert times.find_excess("a.example", 0.01, GAP) == 0.01
    assert times.find_excess("b.example", 5.0, GAP) == MAX_EXCESS * GAP


def test_a_host_that_has_become_slower_counts_as_regular_again():
    times = ResponseTimes()
    for _ in range(10):
        times.find_excess("a.example", 0.01, GAP)
    for _ in range(1_000):
        last = times.find_excess("a.example", 0.05, GAP)
    assert last < REGULAR * GAP


def test_the_times_of_many_hosts_are_forgotten(monkeypatch):
    times = ResponseTimes()
    for number in range(MAX_HOSTS + 1):
        times.find_excess(f"h{number}.example", 0.01, GAP)
    assert len(times._hosts) == 1
