"""Whether a proxy or its target is at fault when a fetch fails, and whether it costs an attempt."""

import asyncio
import logging
import re
from datetime import timedelta

import pytest

from shoal.core.errors import (
    Blocked,
    BrokenAnswer,
    ConnectFailed,
    FetchTimeout,
    NoProxyLeft,
    OutOfScope,
    ProxyFailed,
    ProxyRefused,
    ProxyTrouble,
    TlsFailed,
)
from shoal.core.http import Headers, Identity, Request, Response
from shoal.core.model import SECOND, ZERO
from shoal.core.proxies import ProxyRules, read_proxy_list
from shoal.fetch.contract import begin_task
from shoal.fetch.http.cookies import CookieJar
from shoal.fetch.proxies import fetcher as fetchers
from shoal.fetch.proxies.fetcher import MAX_FREE, ProxiesFetcher, RetryingFetcher
from shoal.fetch.proxies.health import ProxyFault
from shoal.fetch.proxies.pool import ProxyPool
from shoal.fetch.robots.robots import Robots
from tests.unit.fetch.proxies.making import Inner, named, pool, proxies

NOBODY_HEARS = object()  # a sync that does nothing
URL, SAFE_URL = "http://shop.test/1", "https://shop.test/1"
DEAD = ProxyFailed("p", "connection refused")
REFUSED, UNSURE = ProxyRefused("p", "wrong password"), ProxyRefused("p", "will not", is_sure=False)


def bench_all(made):
    made.bench({one.proxy.name: 60 for one in made.records()})


def faults(made):
    return sum((one.faults for one in made.records()), start=type(named(made, 0).faults)())


async def fetched(fetcher, url=URL, **more):
    return await fetcher.fetch(Request(url=url, **more))


async def test_requests_go_by_proxies_in_turn_and_redirect_hops_with_them():
    made, inner = pool(3), Inner()
    fetcher = ProxiesFetcher(inner, made)
    for _ in range(6):
        await fetched(fetcher)
    assert len(set(inner.names()[:3])) == 3
    assert inner.names()[:3] == inner.names()[3:]
    assert all(one.pages == 3 and one.in_flight == 0 for one in made.records())


@pytest.mark.parametrize("error", [DEAD, REFUSED], ids=["dead", "refused"])
async def test_when_a_proxy_cannot_be_used_another_asks_at_once(error):
    made = pool(3)
    inner = Inner(lambda request: error if request.proxy is named(made, 0).proxy else 200)
    fetcher = ProxiesFetcher(inner, made, sync=NOBODY_HEARS)
    for _ in range(5):
        assert (await fetched(fetcher)).status == 200
    assert named(made, 0).streak == 1  # it is unusable until its failure is published
    assert faults(made) == {ProxyFault.REFUSED if error is REFUSED else ProxyFault.DEAD: 1}


async def test_without_a_fleet_a_proxy_is_benched_by_its_own_failures():
    made = pool(2, threshold=3)
    fetcher = ProxiesFetcher(
        Inner(lambda request: DEAD if request.proxy is named(made, 0).proxy else 200), made
    )
    for number in range(20):
        assert (await fetched(fetcher, f"{URL}{number}")).status == 200
    assert faults(made) == {ProxyFault.DEAD: 3}
    assert made.back_in > 0


async def test_when_time_has_passed_the_task_goes_back_at_no_cost(monkeypatch):
    monkeypatch.setattr(fetchers, "QUICK", -1.0)
    with pytest.raises(ProxyTrouble) as caught:
        await fetched(ProxiesFetcher(Inner(lambda request: DEAD), pool(3)))
    assert caught.value.after == ZERO


@pytest.mark.parametrize(
    "error", [UNSURE, FetchTimeout(), BrokenAnswer(), TlsFailed(), ConnectFailed()], ids=repr
)
async def test_what_may_be_the_targets_fault_is_blamed_on_a_proxy_that_never_worked(error):
    made = pool(1, proven=False)
    with pytest.raises(ProxyTrouble):
        await fetched(ProxiesFetcher(Inner(lambda request: error), made), SAFE_URL)
    assert named(made, 0).streak == 1


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (UNSURE, ConnectFailed),
        (FetchTimeout(), FetchTimeout),
        (BrokenAnswer(), BrokenAnswer),
        (TlsFailed(), TlsFailed),
    ],
    ids=repr,
)
async def test_and_charged_to_the_task_when_the_proxy_works_for_others(error, kind):
    made = pool(1)
    with pytest.raises(kind) as caught:
        await fetched(ProxiesFetcher(Inner(lambda request: error), made), SAFE_URL)
    assert not isinstance(caught.value, ProxyFailed)
    assert named(made, 0).streak == 1


async def test_a_proxy_that_stops_working_soon_pays_itself():
    made = pool(1)
    fetcher = ProxiesFetcher(Inner(lambda request: FetchTimeout()), made)
    raised = []
    for _ in range(5):
        with pytest.raises((FetchTimeout, ProxyTrouble)) as caught:
            await fetched(fetcher)
        raised.append(caught.type)
        made.mark_published(made.unpublished())
    assert raised == [FetchTimeout] * 3 + [ProxyTrouble] * 2


async def test_a_task_that_is_tried_again_takes_another_proxy():
    made = pool(5, strategy="random")
    inner = Inner(lambda request: FetchTimeout())
    fetcher = ProxiesFetcher(inner, made)
    for _ in range(5):
        with pytest.raises(FetchTimeout):
            await fetched(fetcher)
        made.mark_published(made.unpublished())
    assert len(set(inner.names())) == 5


async def test_nobody_is_blamed_for_what_the_scraper_forbids():
    made = pool(1)
    with pytest.raises(OutOfScope):
        await fetched(ProxiesFetcher(Inner(lambda request: OutOfScope()), made))
    assert (named(made, 0).streak, named(made, 0).in_flight) == (0, 0)


# Responses


async def test_a_proxy_that_answers_403_in_the_place_of_hosts_pays_itself():
    made = pool(1, proven=False)
    with pytest.raises(ProxyTrouble):
        await fetched(ProxiesFetcher(Inner(lambda request: 403), made))
    assert made.failure_counts() == {"http://p0.test:80 shop.test": 1}


@pytest.mark.parametrize(("url", "scheme"), [(SAFE_URL, "http"), (URL, "socks5"), (SAFE_URL, "socks5")])
async def test_one_that_only_passes_on_what_the_host_says_has_shown_that_it_works(url, scheme):
    made = pool(1, proven=False, scheme=scheme)
    assert (await fetched(ProxiesFetcher(Inner(lambda request: 403), made), url)).status == 403
    assert named(made, 0).is_proven and named(made, 0).pages == 0
    assert list(made.failure_counts().values()) == [1]


async def test_a_407_is_always_the_proxys():
    made = pool(1)
    with pytest.raises(ProxyTrouble):
        await fetched(ProxiesFetcher(Inner(lambda request: 407), made))
    assert (faults(made), made.failure_counts()) == ({ProxyFault.REFUSED: 1}, {"http://p0.test:80": 1})
    assert (await fetched(ProxiesFetcher(Inner(lambda request: 407), pool(1)), SAFE_URL)).status == 407


PROXYS_OWN = Headers([("Server", "tinyproxy/1.11"), ("WWW-Authenticate", 'Basic realm="x"')])
HOSTS_OWN = Headers([("WWW-Authenticate", 'Basic realm="shop"')])


@pytest.mark.parametrize(
    ("address", "headers", "proven", "fault"),
    [
        ("http://me:word@p0.test:80", Headers(), False, ProxyFault.REFUSED),
        ("http://me:word@p0.test:80", PROXYS_OWN, False, ProxyFault.REFUSED),
        ("http://me:word@p0.test:80", HOSTS_OWN, False, ProxyFault.BLOCKED),
        ("http://p0.test:80", Headers(), False, ProxyFault.BLOCKED),
        ("http://me:word@p0.test:80", Headers(), True, None),
    ],
)
async def test_a_401_that_is_not_the_hosts_is_a_proxy_that_refuses_our_password(
    address, headers, proven, fault
):
    made = ProxyPool(ProxyRules(), read_proxy_list([address], what="entry"))
    (health,) = made.records()
    if proven:
        health.record_page(0.1, 0.0)
    fetcher = ProxiesFetcher(Inner(lambda request: Response(url=URL, status=401, headers=headers)), made)
    if fault is None:
        assert (await fetched(fetcher)).status == 401
    else:
        with pytest.raises(ProxyTrouble):
            await fetched(fetcher)
    assert health.faults == ({fault: 1} if fault else {})


async def test_a_host_that_serves_others_but_not_this_proxy_has_blocked_it_and_the_task_does_not_pay():
    made = pool(2)
    made.record_page(named(made, 0), "shop.test", 0.1)
    inner = Inner(lambda request: 403 if request.proxy is named(made, 1).proxy else 200)
    fetcher, troubles = ProxiesFetcher(inner, made, sync=NOBODY_HEARS), 0
    for _ in range(4):
        try:
            await fetched(fetcher, SAFE_URL)
        except ProxyTrouble:
            troubles += 1
    assert troubles == 1  # then it is unusable until its failure is published


async def test_a_page_that_is_forbidden_to_all_is_not_tried_for_ever():
    made = pool(20)
    made.record_page(named(made, 0), "shop.test", 0.1)
    fetcher, tries = ProxiesFetcher(Inner(lambda request: 403), made), 0
    with pytest.raises(ProxyTrouble):
        while True:
            await fetched(fetcher, SAFE_URL)
    for _ in range(19):
        try:
            response = await fetched(fetcher, SAFE_URL)
            break
        except ProxyTrouble:
            tries += 1
    assert response.status == 403
    assert tries < MAX_FREE


async def test_a_page_that_came_by_this_proxy_before_and_is_now_forbidden_is_the_hosts_word():
    made = pool(1)
    made.record_page(named(made, 0), "shop.test", 0.1)
    assert (await fetched(ProxiesFetcher(Inner(lambda request: 403), made))).status == 403


async def test_a_host_that_asks_for_rest_is_heard():
    made = pool(2)
    made.record_page(named(made, 0), "shop.test", 0.1)
    busy = Response(url=URL, status=503, headers=Headers([("Retry-After", "60")]))
    assert await fetched(ProxiesFetcher(Inner(lambda request: busy), made)) is busy


async def test_block_pages_count_and_statuses_that_the_scraper_wants_do_not():
    made = pool(1)
    page = Response(url=SAFE_URL, status=200, body=b"Are you a robot?")
    fetcher = ProxiesFetcher(Inner(lambda request: page), made, block=re.compile("robot"))
    assert await fetched(fetcher, SAFE_URL) is page
    assert list(made.failure_counts().values()) == [1]
    made = pool(1)
    await fetched(ProxiesFetcher(Inner(lambda request: 403), made, statuses={403}), SAFE_URL)
    assert made.failure_counts() == {}


async def test_a_missing_page_is_a_good_answer():
    made = pool(1, proven=False)
    assert (await fetched(ProxiesFetcher(Inner(lambda request: 404), made))).status == 404
    assert named(made, 0).is_proven


# No proxy left


async def test_with_no_proxy_left_tasks_wait_and_it_is_reported_and_nothing_is_sent_directly(
    monkeypatch, caplog
):
    monkeypatch.setattr(fetchers, "HOLD_TIMEOUT_SECONDS", 0.01)
    made, inner = pool(2), Inner()
    bench_all(made)
    fetcher = ProxiesFetcher(inner, made)
    with caplog.at_level(logging.WARNING, "shoal.proxies"):
        for _ in range(3):
            with pytest.raises(NoProxyLeft) as caught:
                await fetched(fetcher)
    assert inner.requests == []
    assert ZERO < caught.value.after <= timedelta(seconds=30)
    assert len(caplog.records) == 1 and "No proxy is left" in caplog.text


async def test_a_direct_connection_is_made_only_if_it_is_allowed():
    made, inner = pool(2, direct=True), Inner()
    fetcher = ProxiesFetcher(inner, made)
    await fetched(fetcher)
    bench_all(made)
    await fetched(fetcher)
    assert [name is None for name in inner.names()] == [False, True]


async def test_a_host_that_has_blocked_every_proxy_is_distinguished():
    made = pool(2, direct=True)
    made.bench({f"{one.proxy.name} shop.test": 60 for one in made.records()})
    with pytest.raises(Blocked, match=r"shop\.test has blocked every proxy"):
        await fetched(ProxiesFetcher(Inner(), made))


async def test_where_all_are_on_trial_and_at_work_a_task_waits_a_moment_and_then_goes_back(monkeypatch):
    monkeypatch.setattr(fetchers, "QUICK", 0.02)
    made, gate = pool(1, proven=False), asyncio.Event()

    class Slow(Inner):
        async def fetch(self, request):
            await gate.wait()
            return await super().fetch(request)

    fetcher = ProxiesFetcher(Slow(), made)
    first = asyncio.create_task(fetched(fetcher))
    await asyncio.sleep(0)
    with pytest.raises(ProxyTrouble) as caught:
        await fetched(fetcher)
    assert caught.value.after == SECOND
    monkeypatch.setattr(fetchers, "QUICK", 5.0)
    second = asyncio.create_task(fetched(fetcher))
    await asyncio.sleep(0)
    gate.set()
    assert [(await one).status for one in (first, second)] == [200, 200]


async def test_a_robots_txt_that_no_proxy_can_fetch_is_not_held_against_its_host(monkeypatch):
    monkeypatch.setattr(fetchers, "HOLD_TIMEOUT_SECONDS", 0.01)
    made = pool(1)
    robots = Robots(ProxiesFetcher(Inner(lambda request: 404), made), "shoal")
    bench_all(made)
    with pytest.raises(NoProxyLeft):
        await robots.check(URL)
    made.replace(proxies(2))
    assert await robots.check(URL)
    await robots.close()


# Rules


async def test_the_rules_may_give_a_proxy_less_time_than_the_scraper_has():
    inner = Inner()
    fetcher = ProxiesFetcher(inner, pool(1, timeout=5 * SECOND))
    await fetched(fetcher, timeout=60 * SECOND)
    await fetched(fetcher, timeout=2 * SECOND)
    assert [request.timeout for request in inner.requests] == [5 * SECOND, 2 * SECOND]


async def test_all_requests_of_a_task_use_one_proxy_if_configured():
    async def task(fetcher):
        begin_task()
        for _ in range(3):
            await fetched(fetcher)
        await asyncio.create_task(fetched(fetcher))

    for rotate, exits in (("task", 1), ("request", 4)):
        inner = Inner()
        fetcher = ProxiesFetcher(inner, pool(4, rotate=rotate))
        await asyncio.create_task(task(fetcher))
        assert len(set(inner.names())) == exits
        await asyncio.create_task(task(fetcher))
        assert len(set(inner.names())) == min(4, 2 * exits)


async def test_a_session_always_uses_the_same_proxy():
    inner = Inner()
    fetcher = ProxiesFetcher(inner, pool(20))
    for key in ("a", "b", "c", "d"):
        inner.requests.clear()
        for _ in range(5):
            await fetched(fetcher, identity=Identity(key=key, cookies=CookieJar()))
        assert len(set(inner.names())) == 1


async def test_closing_closes_what_is_inside():
    inner = Inner()
    fetcher = ProxiesFetcher(inner, pool(1))
    await fetcher.start()
    await fetcher.close()
    assert inner.closed


# Without a queue


async def test_who_has_no_queue_tries_again_a_few_times():
    answers = iter([ProxyTrouble("x", ZERO), ProxyTrouble("y", ZERO), 200])
    inner = Inner(lambda request: next(answers))
    assert (await RetryingFetcher(inner).fetch(Request(url=URL))).status == 200
    for trouble, tries in ((ProxyTrouble("it is away", ZERO), 5), (NoProxyLeft("it is away", ZERO), 1)):
        inner = Inner(lambda request, trouble=trouble: trouble)
        with pytest.raises(ConnectFailed, match="it is away"):
            await RetryingFetcher(inner).fetch(Request(url=URL))
        assert len(inner.requests) == tries
