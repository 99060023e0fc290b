"""Sessions: created when needed, replaced when retired, and never hammering a login."""

import asyncio
from datetime import timedelta

import pytest

from shoal.core.errors import NoSession
from shoal.fetch.sessions.pool import MAX_WAIT, MIN_WAIT, SessionPool, SessionRules


class Time:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Time()


async def test_the_configured_number_of_sessions_is_made_and_they_take_turns():
    pool = SessionPool(SessionRules(size=3))
    keys = [(await pool.take()).key for _ in range(9)]
    assert len(set(keys)) == 3
    assert keys[:3] == keys[3:6] == keys[6:]


async def test_each_wears_a_browser_in_turn():
    pool = SessionPool(SessionRules(size=3, profiles=("chrome", "firefox")))
    assert [(await pool.take()).identity.profile for _ in range(3)] == ["chrome", "firefox", "chrome"]


async def test_one_that_is_turned_away_is_replaced_with_all_that_belongs_to_it():
    pool = SessionPool(SessionRules(size=1))
    first = await pool.take()
    first.cookies.store("https://shop.test/", "shop.test", ["id=1"])
    for _ in range(3):
        first.record_block()
    second = await pool.take()
    assert second.key != first.key and first.is_retired
    assert second.identity.cookies.header("https://shop.test/", "shop.test") is None


async def test_success_makes_up_for_being_turned_away():
    pool = SessionPool(SessionRules(size=1))
    first = await pool.take()
    for _ in range(20):
        first.record_block()
        first.record_success()
        first.record_success()
    assert (await pool.take()) is first


async def test_one_is_replaced_after_its_uses_or_its_time(clock):
    pool = SessionPool(SessionRules(size=1, max_uses=2, max_age=timedelta(minutes=1)), clock=clock)
    keys = [(await pool.take()).key for _ in range(4)]
    assert keys[0] == keys[1] != keys[2] == keys[3]
    fifth = await pool.take()
    clock.now += 60
    assert (await pool.take()) is not fifth


async def test_a_session_is_not_used_before_its_login_and_all_wait_for_one_login():
    began, go = [], asyncio.Event()

    async def login(session):
        began.append(session)
        await go.wait()

    pool = SessionPool(SessionRules(size=5), login)
    takers = [asyncio.create_task(pool.take()) for _ in range(20)]
    await asyncio.sleep(0.01)
    assert len(began) == 1 and not any(taker.done() for taker in takers)
    go.set()
    taken = await asyncio.gather(*takers)
    assert all(session.is_ready for session in taken)
    await pool.close()


async def test_no_more_logins_run_at_once_than_were_allowed():
    running = most = 0

    async def login(session):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1

    pool = SessionPool(SessionRules(size=9, logins=2), login)
    for _ in range(200):
        await pool.take()
        await asyncio.sleep(0.0005)
    assert most <= 2
    assert len(pool._sessions) == 9
    await pool.close()


async def test_a_login_that_fails_is_not_tried_again_before_its_time(clock, caplog):
    tries = []

    async def login(session):
        tries.append(clock.now)
        raise ValueError("wrong password=hunter2")

    pool = SessionPool(SessionRules(size=3), login, clock=clock)
    waits = []
    for _ in range(12):
        for _ in range(5):
            with pytest.raises(NoSession) as caught:
                await pool.take()
        waits.append(caught.value.after)
        clock.now += caught.value.after.total_seconds()
    assert len(tries) == 12
    assert waits[:3] == [MIN_WAIT, 2 * MIN_WAIT, 4 * MIN_WAIT]
    assert waits[-1] == MAX_WAIT
    assert "hunter2" not in caplog.text and "hunter2" not in str(caught.value)


async def test_a_login_that_works_again_forgets_the_failures(clock):
    is_broken = True

    async def login(session):
        if is_broken:
            raise ValueError

    pool = SessionPool(SessionRules(size=1), login, clock=clock)
    with pytest.raises(NoSession):
        await pool.take()
    is_broken = False
    clock.now += MIN_WAIT.total_seconds()
    assert (await pool.take()).is_ready
