"""A Tor that keeps dying, or that has lost its circuits."""

import asyncio
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from shoal.core.errors import TorDown
from shoal.fetch.tor import tor as keeping
from shoal.fetch.tor.tor import Tor, pause_before_start


class Life:
    """A Tor process, as the test sets it."""

    def __init__(self):
        self.progress, self.activity, self.is_up, self.port = 100, "Done", True, 9
        self.ended = asyncio.Event()

    async def wait_until_ended(self):
        await self.ended.wait()

    async def stop(self):
        return 1


@pytest.fixture
async def lives(monkeypatch):
    """The processes that Tor has had; a failed start is an error in its place."""
    had = []

    async def start(command, folder, on_change):
        had.append(lives.next() if lives.next else Life())
        return had[-1]

    lives = SimpleNamespace(had=had, next=None)
    monkeypatch.setattr(keeping.TorProcess, "start", start)
    monkeypatch.setattr(keeping, "pause_before_start", lambda failures: timedelta(milliseconds=failures))
    return lives


@pytest.fixture
async def tor(lives):
    folder = SimpleNamespace(path=Path("/nowhere"), remove=lambda: None)
    opened = Tor(folder, ["tor"])
    await asyncio.sleep(0.01)
    yield opened
    await opened.close()


async def test_a_tor_whose_program_cannot_be_started_is_tried_again(lives):
    def refuse():
        lives.next = None
        raise OSError("too many open files")

    lives.next = refuse
    opened = Tor(SimpleNamespace(path=Path("/nowhere"), remove=lambda: None), ["tor"])
    with pytest.raises(TorDown):
        opened.proxy("a")
    await opened.wait_until_up(timedelta(seconds=5))
    assert opened.restarts == 1
    await opened.close()


async def test_a_tor_that_ended_gives_no_proxy_until_the_next_one_is_up(tor, lives):
    assert tor.proxy("a").url == "socks5h://a:shoal@127.0.0.1:9"
    lives.had[0].ended.set()
    while tor.is_up:
        await asyncio.sleep(0)
    with pytest.raises(TorDown, match=r"it (has )?ended"):
        tor.proxy("a")
    await tor.wait_until_up(timedelta(seconds=5))
    assert tor.proxy("a") and tor.restarts == 1


async def test_one_request_may_try_a_tor_that_has_lost_its_circuits(tor, lives):
    """Else it might build none: Tor builds circuits on demand."""
    lives.had[0].is_up = False
    assert tor.proxy("a")
    for _ in range(5):
        with pytest.raises(TorDown, match="100 %"):
            tor.proxy("a")
    tor._next_trial -= keeping.TRIAL_INTERVAL_SECONDS
    assert tor.proxy("a")


async def test_no_request_may_try_a_tor_that_was_never_up(tor, lives):
    lives.had[0].is_up, lives.had[0].progress = False, 95
    with pytest.raises(TorDown, match="95 %"):
        tor.proxy("a")


async def test_a_slow_start_is_reported_once(tor, lives, caplog):
    lives.had[0].is_up, lives.had[0].progress = False, 5
    tor.down()
    assert not caplog.records
    tor._since -= 31
    for _ in range(3):
        tor.down()
    (told,) = caplog.records
    assert told.levelname == "WARNING" and "5 %" in told.getMessage()


@pytest.mark.parametrize(("failures", "seconds"), [(1, 1), (2, 2), (3, 4), (6, 32), (7, 60), (1000, 60)])
def test_the_pause_grows_up_to_a_minute(failures, seconds):
    assert pause_before_start(failures) == timedelta(seconds=seconds)
