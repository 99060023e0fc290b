"""The small parts of the browser: seats, passes, trackers, words for failures, processes."""

import asyncio
import os
import subprocess
import sys

import pytest

from shoal.core.errors import (
    BrokenAnswer,
    BrowserMissing,
    ConnectFailed,
    DnsFailed,
    FetchTimeout,
    NoTabFree,
    OutOfScope,
    TlsFailed,
    TooLarge,
)
from shoal.core.exchange import Way
from shoal.fetch.browser.chromium import VARIABLE, find_chromium
from shoal.fetch.browser.errors import translated
from shoal.fetch.browser.memory import family, memory_of
from shoal.fetch.browser.passes import Passes
from shoal.fetch.browser.seats import IN_LINE, Seats
from shoal.fetch.browser.trackers import is_tracker


async def test_seats_are_given_in_the_order_of_asking():
    seats, got = Seats(1), []

    async def sit(name):
        await seats.take()
        got.append(name)

    await seats.take()
    waiting = [asyncio.create_task(sit(name)) for name in "abc"]
    await asyncio.sleep(0)
    for _ in range(3):
        seats.give()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    assert got == ["a", "b", "c"]
    await asyncio.gather(*waiting)


async def test_a_crowd_is_sent_back():
    seats = Seats(1)
    await seats.take()
    waiting = [asyncio.create_task(seats.take()) for _ in range(IN_LINE)]
    await asyncio.sleep(0)
    with pytest.raises(NoTabFree):
        await seats.take()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_who_gives_up_takes_no_seat_along():
    seats = Seats(1)
    await seats.take()
    leaving, staying = (asyncio.create_task(seats.take()) for _ in range(2))
    await asyncio.sleep(0)
    seats.give()  # it is the first one's turn, who leaves at this very moment
    leaving.cancel()
    await asyncio.gather(leaving, return_exceptions=True)
    await asyncio.wait_for(staying, 1)
    seats.give()
    assert seats.free == 1


def test_a_pass_is_good_until_it_is_taken_back():
    passes = Passes()
    shown = passes.give(Way(name="mine", url="http://user:word@proxy"))
    assert passes.find(f"Basic {shown.token}") is shown
    assert passes.find(f"basic  {shown.token} ") is shown
    for wrong in ("", "Basic", "Basic x", f"Bearer {shown.token}", shown.token):
        assert passes.find(wrong) is None
    assert shown.secret not in repr(shown) and "word" not in repr(shown)
    passes.take_back(shown)
    assert passes.find(f"Basic {shown.token}") is None


def test_a_page_that_moves_too_many_bytes_is_told():
    told = []
    shown = Passes().give(None)
    shown.begin(100, told.append)
    assert shown.spend(60) and shown.spend(40) and not told
    assert not shown.spend(1)
    assert isinstance(told[0], TooLarge)


def test_trackers_are_known_by_their_names():
    assert is_tracker("www.google-analytics.com") and is_tracker("doubleclick.net.")
    assert not is_tracker("example.com") and not is_tracker("notdoubleclick.net") and not is_tracker("net")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("net::ERR_NAME_NOT_RESOLVED", DnsFailed),
        ("net::ERR_CERT_AUTHORITY_INVALID", TlsFailed),
        ("net::ERR_SSL_PROTOCOL_ERROR", TlsFailed),
        ("net::ERR_CONNECTION_REFUSED", ConnectFailed),
        ("net::ERR_TUNNEL_CONNECTION_FAILED", ConnectFailed),
        ("net::ERR_TOO_MANY_REDIRECTS", OutOfScope),
        ("net::ERR_TIMED_OUT", FetchTimeout),
        ("net::ERR_EMPTY_RESPONSE", BrokenAnswer),
        ("net::ERR_OF_TOMORROW", BrokenAnswer),
    ],
)
def test_the_browsers_words_are_translated(text, kind):
    assert type(translated(text, "https://shop.test/")) is kind


def test_a_missing_browser_says_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(BrowserMissing, match="apt-get install chromium-headless-shell; or say where it is"):
        find_chromium(tmp_path / "nothing")
    monkeypatch.setenv(VARIABLE, str(tmp_path / "chrome"))
    with pytest.raises(BrowserMissing, match="no program at"):
        find_chromium()
    (tmp_path / "chrome").write_text("#!/bin/sh\n")
    (tmp_path / "chrome").chmod(0o755)
    assert find_chromium() == tmp_path / "chrome"


def test_a_family_is_a_process_and_all_that_it_has_started():
    script = "import subprocess as s; one = s.Popen(['sleep', '60']); print(one.pid, flush=True); one.wait()"
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as process:
        child = int(process.stdout.readline())
        assert set(family(process.pid)) == {process.pid, child}
        assert memory_of(process.pid) > 1 << 20
        os.kill(child, 9)
    assert family(process.pid) == []
    assert memory_of(process.pid) == 0
