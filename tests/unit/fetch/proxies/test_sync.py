"""What workers share about their proxies: failures are added up, and one ban holds for all."""

from datetime import timedelta

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.core.proxies import ProxyRules, read_proxy_list
from shoal.fetch.proxies import sync as boards
from shoal.fetch.proxies.health import ProxyFault
from shoal.fetch.proxies.pool import SETTLING, ProxyPool
from shoal.fetch.proxies.sync import ProxySync, read_stats, topic
from tests.unit.fetch.proxies.making import Board as Notes
from tests.unit.fetch.proxies.making import Clock, named, pool, proxies

RUN, HOST = "20260215_120000_ab12", "shop.test"
HOUR = timedelta(hours=1)
DEAD = "http://p0.test:80"


class Fleet:
    """Workers that share notes and a clock."""

    def __init__(self, count, **rules):
        self.notes, self.clock = Notes(), Clock()
        rules = {"threshold": 10, "duration": HOUR} | rules
        self.pools = [pool(3, clock=self.clock, **rules) for _ in range(count)]
        self.boards = [ProxySync(self.notes, RUN, f"w{n}", made) for n, made in enumerate(self.pools)]

    async def exchange(self):
        for sync in self.boards:
            await sync.exchange()

    def forward(self, seconds):
        self.clock.now += seconds
        self.notes.now += seconds

    def fail(self, worker, times, fault=ProxyFault.DEAD):
        for _ in range(times):
            self.pools[worker].record_failure(named(self.pools[worker], 0), fault)

    def takes(self, worker):
        """Return whether a worker picks the first proxy."""
        made = self.pools[worker]
        return any(made.pick(HOST, None) is named(made, 0) for _ in range(6))


@pytest.fixture(autouse=True)
def _always_due(monkeypatch):
    monkeypatch.setattr(boards, "SYNC_INTERVAL_SECONDS", 0.0)


async def test_failures_of_all_workers_are_added_up_and_all_obey():
    fleet = Fleet(4)
    for worker in range(3):
        fleet.fail(worker, 3)
    await fleet.exchange()
    assert all(fleet.takes(worker) for worker in range(4))
    fleet.fail(3, 1)
    await fleet.exchange()
    await fleet.exchange()
    assert not any(fleet.takes(worker) for worker in range(4))


async def test_a_benched_one_comes_back_to_all_after_its_time_and_is_benched_at_once_if_it_fails():
    fleet = Fleet(2)
    fleet.fail(0, 10)
    await fleet.exchange()
    assert not fleet.takes(0) and not fleet.takes(1)
    fleet.forward(3599)
    await fleet.exchange()
    assert not fleet.takes(0) and not fleet.takes(1)
    fleet.forward(2)
    await fleet.exchange()
    assert fleet.takes(0) and fleet.takes(1)
    fleet.fail(1, 1)
    await fleet.exchange()
    await fleet.exchange()
    assert not fleet.takes(0) and not fleet.takes(1)


async def test_one_that_serves_others_is_benched_only_for_the_worker_that_is_locked_out():
    fleet = Fleet(2)
    fleet.fail(0, 10)
    fleet.pools[1].record_page(named(fleet.pools[1], 0), HOST, 0.1)
    named(fleet.pools[1], 0).last_page = boards.time.monotonic()
    await fleet.boards[1].exchange()
    await fleet.exchange()
    assert not fleet.takes(0)
    assert fleet.takes(1)


async def test_a_worker_that_is_silent_has_no_say():
    fleet = Fleet(2)
    fleet.fail(0, 9)
    await fleet.exchange()
    fleet.forward(16)
    fleet.fail(1, 1)
    await fleet.boards[1].exchange()
    assert fleet.takes(1)


async def test_what_a_host_blocks_is_benched_for_that_host_in_the_whole_fleet():
    fleet = Fleet(2)
    for made in fleet.pools:
        for _ in range(5):
            made.record_block(named(made, 0), HOST)
    await fleet.exchange()
    await fleet.exchange()
    assert not fleet.takes(0) and not fleet.takes(1)
    assert fleet.pools[0].pick("other.test", None)


async def test_slices_follow_who_is_there():
    fleet = Fleet(3, share="slice")
    await fleet.exchange()
    await fleet.exchange()
    assert [len(made._queue) for made in fleet.pools] == [1, 1, 1]
    fleet.forward(16)
    await fleet.boards[0].exchange()
    assert len(fleet.pools[0]._queue) == 3


async def test_with_a_gap_a_delayed_worker_and_the_one_that_takes_over_never_have_the_same_proxy():
    clock, notes, syncs = Clock(), Notes(), []
    pools = [ProxyPool(ProxyRules(share="slice"), proxies(4), gap=1.0, clock=clock) for _ in range(2)]

    def usable():
        return [{one.proxy.name for one in made._queue if not made.wait(one, HOST)} for made in pools]

    for number, made in enumerate(pools):
        syncs.append(ProxySync(notes, RUN, f"w{number}", made))
    for _ in range(5):
        await syncs[0].exchange()
        clock.now += 3
    assert [len(names) for names in usable()] == [4, 0]
    # The second worker joins, and the first one does nothing for a while.
    for _ in range(20):
        await syncs[1].exchange()
        clock.now += 0.5
        first, second = usable()
        assert not first & second
    assert [len(names) for names in usable()] == [0, 2]
    await syncs[0].exchange()
    assert [len(names) for names in usable()] == [0, 2]
    clock.now += SETTLING
    for sync in syncs:
        await sync.exchange()
    clock.now += 1
    assert [len(names) for names in usable()] == [2, 2]


async def test_counts_are_shared_for_reports():
    fleet = Fleet(1)
    fleet.pools[0].record_page(named(fleet.pools[0], 0), HOST, 0.25)
    fleet.fail(0, 2, ProxyFault.REFUSED)
    await fleet.exchange()
    stats = read_stats((await fleet.notes.notes(topic("deeds", RUN)))["w0"])
    assert stats[DEAD].pages == 2 and stats[DEAD].faults == {"refused": 2}
    assert stats[DEAD].last_fault == "refused"


async def test_no_secret_is_shared():
    notes = Notes()
    made = ProxyPool(ProxyRules(threshold=1), read_proxy_list(["me:s3cret@p.test:80"], what="entry"))
    sync = ProxySync(notes, RUN, "w0", made)
    (health,) = made.records()
    made.record_failure(health, ProxyFault.DEAD)
    made.record_block(health, HOST)
    await sync.exchange()
    assert b"p.test" in notes.text()
    assert b"s3cret" not in notes.text() and "s3cret" not in str(notes._kept.keys())


async def test_a_queue_that_is_away_holds_nothing_up():
    class Away:
        def __getattr__(self, verb):
            async def called(*given, **named):
                raise QueueUnavailable("the queue", "away")

            return called

    made = pool(2)
    made.record_failure(named(made, 0), ProxyFault.DEAD)
    with pytest.raises(QueueUnavailable):
        await ProxySync(Away(), RUN, "w0", made).exchange()
    assert made.unpublished() == []


async def test_notes_that_cannot_be_read_are_passed_over():
    fleet = Fleet(1)
    for what in ("trouble", "benched", "deeds"):
        await fleet.notes.write_notes(topic(what, RUN), {"x": b"\xc1junk"})
    fleet.fail(0, 10)
    await fleet.exchange()
    assert not fleet.takes(0)


async def test_the_success_of_each_proxy_is_logged_without_its_password(caplog):
    made = ProxyPool(ProxyRules(), read_proxy_list(["http://me:s3cret@p.test:80"], what="entry"))
    (health,) = made.records()
    made.record_page(health, HOST, 0.1)
    made.record_block(health, HOST)
    caplog.set_level("INFO")
    ProxySync(Notes(), RUN, "w", made).log_results()
    assert f"Proxy {health.proxy.name}: 50% of requests succeeded. 1 blocked" in caplog.text
    assert "s3cret" not in caplog.text
    unblocked = ProxyPool(ProxyRules(), read_proxy_list(["http://p.test:80"], what="entry"))
    unblocked.record_page(next(iter(unblocked.records())), HOST, 0.1)
    ProxySync(Notes(), RUN, "w", unblocked).log_results()
    assert caplog.messages[-1].endswith("100% of requests succeeded.")
