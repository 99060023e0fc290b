"""Where proxies come from: a list, a file that changes, a function that is called again."""

import asyncio
import logging
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.proxies import ProxyRules
from shoal.fetch.proxies import source as sources
from shoal.fetch.proxies.source import ProxySource


def urls(proxies):
    return [proxy.url for proxy in proxies]


async def changed(source):
    async with asyncio.timeout(5):
        return urls(await source.changes())


async def test_a_list_is_read():
    assert urls(await ProxySource(ProxyRules(listed=("p.test:80",))).read()) == ["http://p.test:80"]


async def test_a_file_is_read_again_when_it_changes_and_the_old_list_stays_while_it_is_broken(
    tmp_path, monkeypatch, caplog
):
    monkeypatch.setattr(sources, "CHECK_INTERVAL_SECONDS", 0.01)
    file = tmp_path / "proxies.txt"
    file.write_text("p.test:80\n")
    source = ProxySource(ProxyRules(file=file))
    assert urls(await source.read()) == ["http://p.test:80"]
    waiting = asyncio.create_task(changed(source))
    with caplog.at_level(logging.WARNING, "shoal.proxies"):
        file.write_text("p.test:80\nme:s3cret@oops\n")
        while not caplog.records:
            await asyncio.sleep(0.01)
        file.unlink()
        await asyncio.sleep(0.05)
    assert not waiting.done()
    assert "line 2" in caplog.text and "s3cret" not in caplog.text
    file.write_text("p.test:80\np.test:81\np.test:82\n")
    assert await waiting == ["http://p.test:80", "http://p.test:81", "http://p.test:82"]


async def later():
    return ["p.test:81"]


@pytest.mark.parametrize(
    "provider",
    [lambda: ["p.test:81"], lambda: "p.test:81\n", later, lambda: later(), lambda: ("http://p.test:81",)],
)
async def test_a_function_may_be_of_any_kind(provider):
    assert urls(await ProxySource(ProxyRules(provider=provider)).read()) == ["http://p.test:81"]


async def test_a_function_is_asked_again():
    answers = iter([["p.test:80"], ["p.test:81"]])
    source = ProxySource(ProxyRules(provider=lambda: next(answers), refresh=timedelta(milliseconds=10)))
    assert urls(await source.read()) == ["http://p.test:80"]
    assert await changed(source) == ["http://p.test:81"]


async def test_a_function_that_fails_is_named_without_its_words():
    def broken():
        raise ValueError("http://me:s3cret@provider.test/")

    with pytest.raises(InvalidSetting, match="function failed: ValueError") as caught:
        await ProxySource(ProxyRules(provider=broken)).read()
    assert "s3cret" not in str(caught.value)
    with pytest.raises(InvalidSetting, match="must return a list of addresses"):
        await ProxySource(ProxyRules(provider=lambda: 7)).read()


async def test_a_function_that_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(sources, "PROVIDER_TIMEOUT_SECONDS", 0.02)

    async def hang():
        await asyncio.sleep(60)

    with pytest.raises(InvalidSetting, match=r"within 0\.02 s"):
        await ProxySource(ProxyRules(provider=hang)).read()
