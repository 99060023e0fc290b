"""Which proxy is picked, which is benched, and when one returns."""

from collections import Counter

import pytest

from shoal.core.proxies import ProxyRules
from shoal.fetch.proxies.health import MAX_STREAK, ProxyFault
from shoal.fetch.proxies.pool import (
    MAX_BLOCKS,
    MAX_STREAKS,
    RECHECK,
    SETTLING,
    UP_PERIOD_SECONDS,
    ProxyPool,
    ProxyShortage,
)
from tests.unit.fetch.proxies.making import Clock, named, number_of, pool, proxies

HOST = "shop.test"


def take(pool, times=1, host=HOST, **more):
    """Pick proxies one after another, each released before the next is picked."""
    taken = []
    for _ in range(times):
        health = pool.pick(host, None, **more)
        pool.begin(health, host)
        pool.end(health)
        taken.append(number_of(health))
    return taken


def test_round_robin_gives_each_its_turn_also_when_some_are_benched():
    made = pool(10)
    made.bench({named(made, number).proxy.name: 60 for number in (3, 4, 5)})
    assert set(Counter(take(made, 70)).values()) == {10}


def test_one_that_comes_back_from_the_bench_is_not_given_all_that_it_missed():
    clock = Clock()
    made = pool(3, clock=clock)
    made.bench({named(made, 0).proxy.name: 60})
    take(made, 100)
    clock.now += 61
    assert Counter(take(made, 30))[0] <= 11


@pytest.mark.parametrize("strategy", ["round_robin", "random", "least_used", "fastest", "sticky"])
def test_no_strategy_takes_one_that_is_benched_blocked_or_to_be_avoided(strategy):
    made = pool(5, strategy=strategy)
    made.bench({named(made, 0).proxy.name: 60, f"{named(made, 1).proxy.name} {HOST}": 60})
    avoid = {named(made, 2).proxy.name}
    assert set(take(made, 100, avoid=avoid)) <= {3, 4}
    assert made.pick(HOST, None, {one.proxy.name for one in made.records()}) is None


@pytest.mark.parametrize("strategy", ["random", "least_used", "fastest"])
def test_many_proxies_are_found_too_when_few_of_them_may_be_taken(strategy):
    made = pool(500, strategy=strategy)
    made.bench({one.proxy.name: 60 for one in made.records() if number_of(one) != 321})
    assert take(made, 3) == [321] * 3


def test_the_least_used_is_taken():
    made = pool(3, strategy="least_used")
    named(made, 0).in_flight, named(made, 1).used = 1, 5
    assert take(made) == [2]


def test_the_fastest_is_taken_and_those_never_measured_first():
    made = pool(3, strategy="fastest")
    for number, seconds in enumerate((0.5, 0.1, 0.2)):
        named(made, number).seconds = seconds
    assert take(made, 3) == [1, 1, 1]
    named(made, 1).in_flight = 4
    assert take(made) == [2]
    named(made, 0).seconds = None
    assert take(made) == [0]


def test_a_host_sticks_to_its_proxy_in_every_worker_and_only_the_keys_of_a_benched_one_move():
    one, other = pool(20, strategy="sticky"), pool(20, strategy="sticky")
    hosts = [f"h{number}.test" for number in range(200)]
    before = {host: take(one, host=host)[0] for host in hosts}
    assert before == {host: take(other, host=host)[0] for host in hosts}
    assert len(set(before.values())) > 15
    gone = before[hosts[0]]
    one.bench({named(one, gone).proxy.name: 60})
    after = {host: take(one, host=host)[0] for host in hosts}
    assert all(after[host] == before[host] for host in hosts if before[host] != gone)
    assert gone not in after.values()


def test_a_session_sticks_to_its_proxy_whatever_the_strategy():
    made = pool(20, strategy="random")
    assert len({made.pick(f"h{number}.test", "session 7") for number in range(50)}) == 1


def test_one_that_has_not_worked_yet_is_given_one_request_at_a_time():
    made = pool(2, proven=False)
    for _ in range(2):
        made.begin(made.pick(HOST, None), HOST)
    assert made.pick(HOST, None) is None
    assert made.shortage(HOST) is ProxyShortage.BUSY
    made.record_page(named(made, 0), HOST, 0.1)
    assert [number_of(made.pick(HOST, None)) for _ in range(5)] == [0] * 5


def test_a_failed_proxy_rests_until_the_failure_is_shared():
    made = pool(2)
    made.record_failure(named(made, 0), ProxyFault.DEAD)
    assert take(made, 5) == [1] * 5
    assert made.has_failures.is_set()
    made.mark_published(made.unpublished())
    assert 0 in take(made, 5)


def test_a_page_ends_a_row_of_failures():
    made = pool(2)
    for _ in range(MAX_STREAK):
        assert named(made, 0).is_proven
        made.record_failure(named(made, 0), ProxyFault.DEAD)
    assert not named(made, 0).is_proven
    assert made.failure_counts() == {"http://p0.test:80": MAX_STREAK}
    made.record_page(named(made, 0), HOST, 0.1)
    assert named(made, 0).is_proven and made.failure_counts() == {}


def test_a_benched_one_comes_back_on_trial_and_one_failure_is_then_enough():
    clock = Clock()
    made = pool(2, clock=clock)
    unit = named(made, 0).proxy.name
    made.bench({unit: 60})
    assert made.back_in == 60
    clock.now += 59
    assert take(made, 4) == [1] * 4
    clock.now += 2
    assert 0 in take(made, 4)
    assert named(made, 0).is_on_trial and not named(made, 0).is_proven
    made.record_failure(named(made, 0), ProxyFault.SLOW)
    assert made.pop_condemned() == {unit: ProxyFault.SLOW}


def test_a_benched_one_that_works_on_trial_is_as_good_as_any():
    clock = Clock()
    made = pool(1, clock=clock)
    made.bench({named(made, 0).proxy.name: 60})
    assert made.pick(HOST, None) is None and made.shortage(HOST) is ProxyShortage.BENCHED
    clock.now += 61
    made.record_page(made.pick(HOST, None), HOST, 0.1)
    assert named(made, 0).is_proven
    made.record_failure(named(made, 0), ProxyFault.DEAD)
    assert made.pop_condemned() == {}


def test_what_a_host_blocks_is_benched_for_that_host_alone():
    made = pool(1)
    made.record_block(named(made, 0), HOST)
    assert made.failure_counts() == {f"http://p0.test:80 {HOST}": 1}
    made.bench({f"http://p0.test:80 {HOST}": 60})
    made.mark_published(made.unpublished())
    assert made.pick(HOST, None) is None and made.shortage(HOST) is ProxyShortage.BLOCKED
    assert made.pick("other.test", None) is not None


def test_one_that_several_hosts_block_and_that_never_worked_is_given_up_as_a_whole():
    for proven, condemned in ((True, {}), (False, {"http://p0.test:80": ProxyFault.REFUSED})):
        made = pool(1, proven=proven)
        made.bench({f"http://p0.test:80 h{number}.test": 60 for number in range(MAX_BLOCKS)})
        assert made.pop_condemned() == condemned


def test_a_host_is_well_while_it_lately_gave_a_page():
    clock = Clock()
    made = pool(2, clock=clock)
    assert not made.hosts.is_up(HOST)
    made.record_page(named(made, 0), HOST, 0.1)
    assert made.hosts.is_up(HOST) and made.hosts.has_accepted("http://p0.test:80", HOST)
    assert not made.hosts.has_accepted("http://p1.test:80", HOST)
    clock.now += UP_PERIOD_SECONDS
    assert not made.hosts.is_up(HOST)


def test_a_new_list_keeps_what_is_known_of_those_that_stay():
    made = pool(3)
    known = named(made, 1)
    made.replace(proxies(5)[1:])
    assert named(made, 1) is known
    assert set(take(made, 20)) == {1, 2, 3, 4}


def test_slices_are_taken_and_given_back():
    made = pool(10, share="slice")
    made.share(1, 5, read_at=made.clock())
    assert set(take(made, 20)) == {1, 6}
    made.share(0, 1, read_at=made.clock())
    assert set(take(made, 40)) == set(range(10))


def test_with_a_gap_each_proxy_asks_a_host_at_its_own_pace():
    clock = Clock()
    made = ProxyPool(ProxyRules(), proxies(3), gap=10.0, clock=clock)
    for health in made.records():
        health.record_page(0.1, 0.0)
    assert made.shortage(HOST) is ProxyShortage.TOO_SOON  # another worker may have used them a moment ago
    clock.now += SETTLING + 10
    assert sorted(take(made, 3)) == [0, 1, 2]
    assert made.pick(HOST, None) is None and made.shortage(HOST) is ProxyShortage.TOO_SOON
    assert made.free_in(HOST) == 10
    assert take(made, 1, host="other.test")
    clock.now += 10
    assert sorted(take(made, 3)) == [0, 1, 2]


def test_a_slice_that_is_new_rests_until_its_last_owner_has_heard_of_it():
    clock = Clock()
    made = ProxyPool(ProxyRules(share="slice"), proxies(4), gap=1.0, clock=clock)
    made.share(0, 2, read_at=made.clock())
    clock.now += SETTLING + 1
    made.share(0, 2, read_at=made.clock())
    assert set(take(made, 2)) == {0, 2}
    made.share(0, 1, read_at=made.clock())
    clock.now += 1
    assert set(take(made, 2)) == {0, 2}
    clock.now += SETTLING
    made.share(0, 1, read_at=made.clock())
    assert set(take(made, 4)) == {0, 1, 2, 3}


def test_with_a_gap_a_worker_that_has_not_heard_from_the_fleet_for_long_sends_nothing():
    clock = Clock()
    made = ProxyPool(ProxyRules(share="slice"), proxies(4), gap=1.0, clock=clock)
    made.share(0, 2, read_at=clock.now)
    clock.now += SETTLING + 1
    # By now another worker may have taken these over.
    assert made.pick(HOST, None) is None and made.shortage(HOST) is ProxyShortage.TOO_SOON
    assert made.free_in(HOST) == RECHECK
    made.share(0, 2, read_at=clock.now - 1)
    assert set(take(made, 2)) == {0, 2}
    clock.now += SETTLING - 1.5
    assert set(take(made, 2)) == {0, 2}
    clock.now += 1
    assert made.pick(HOST, None) is None


def test_shared_blocks_expire():
    made = pool(1)
    for number in range(MAX_STREAKS + 10):
        made.record_block(named(made, 0), f"h{number}.test")
    assert len(made.failure_counts()) == MAX_STREAKS
    assert f"http://p0.test:80 h{MAX_STREAKS}.test" in made.failure_counts()
