"""The small parts of the browser: tab limit, credentials, trackers, error translation, processes."""

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
from shoal.core.http import Proxy
from shoal.fetch.browser.fetcher import MAX_WAITERS, TabLimit
from shoal.fetch.browser.process import VARIABLE, find_chromium, memory_of, process_tree
from shoal.fetch.browser.proxy.credentials import ProxyCredentials
from shoal.fetch.browser.tab import translate_error
from shoal.fetch.browser.trackers import is_tracker


async def test_a_crowd_is_sent_back():
    seats = TabLimit(1)
    await seats.acquire()
    waiting = [asyncio.create_task(seats.acquire()) for _ in range(MAX_WAITERS)]
    await asyncio.sleep(0)
    with pytest.raises(NoTabFree):
        await seats.acquire()
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


def test_a_pass_is_good_until_it_is_taken_back():
    credentials = ProxyCredentials()
    credential = credentials.create(Proxy(name="mine", url="http://user:word@proxy"))
    assert credentials.find(f"Basic {credential.token}") is credential
    assert credentials.find(f"basic  {credential.token} ") is credential
    for wrong in ("", "Basic", "Basic x", f"Bearer {credential.token}", credential.token):
        assert credentials.find(wrong) is None
    assert credential.secret not in repr(credential) and "word" not in repr(credential)
    credentials.revoke(credential)
    assert credentials.find(f"Basic {credential.token}") is None


def test_a_page_that_moves_too_many_bytes_fails():
    told = []
    credential = ProxyCredentials().create(None)
    credential.begin(100, told.append)
    assert credential.consume(60) and credential.consume(40) and not told
    assert not credential.consume(1)
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
    assert type(translate_error(text, "https://shop.test/")) is kind


def test_a_missing_browser_says_what_to_do(monkeypatch, tmp_path):
    with pytest.raises(BrowserMissing, match="apt-get install chromium-headless-shell; or set its path"):
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
        assert set(process_tree(process.pid)) == {process.pid, child}
        assert memory_of(process.pid) > 1 << 20
        os.kill(child, 9)
    assert process_tree(process.pid) == []
    assert memory_of(process.pid) == 0
