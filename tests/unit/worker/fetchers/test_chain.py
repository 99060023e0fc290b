import os

import pytest

from shoal.core.errors import NotRecorded, PluginFailed
from shoal.core.http import Request, Response
from shoal.export.archive.warc import WarcWriter
from shoal.fetch.archive import PlaybackFetcher, RecordingFetcher
from shoal.fetch.cache.fetcher import CachingFetcher
from shoal.fetch.egress import Egress
from shoal.fetch.http.aiohttp import AioHttpEngine
from shoal.fetch.http.client import RedirectingClient
from shoal.fetch.http.wreq import WreqEngine
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker.fetchers import chain
from shoal.worker.fetchers.chain import FETCHERS, realm_of, sandbox_notice, with_named
from tests.packages import install

URL = "https://shop.test/"


async def open_http(**settings):
    read = ScraperSettings.read(**settings)
    return (await chain.open_fetchers(read, None, user_agent="shoal", run_id="r"))["http"]


@pytest.fixture
def egresses(monkeypatch):
    """Record every egress that is created, and every URL that passes through one."""
    counted = []

    class Counted(Egress):
        def __init__(self, *args, **more):
            counted.append("created")
            super().__init__(*args, **more)

        async def admit(self, url):
            counted.append(url)
            raise ConnectionRefusedError(url)

    monkeypatch.setattr(chain, "Egress", Counted)
    return counted


@pytest.fixture
async def recording(tmp_path):
    writer = WarcWriter.open(tmp_path / "a.warc.gz", user_agent="shoal")
    await writer.write(Request(url=URL), Response(url=URL, status=200, body=b"page"))
    await writer.close()
    return str(tmp_path / "a.warc.gz")


async def test_a_playback_has_no_egress_at_all(egresses, recording):
    fetcher = await open_http(playback=recording)
    assert isinstance(fetcher, PlaybackFetcher)
    assert (await fetcher.fetch(Request(url=URL))).body == b"page"
    with pytest.raises(NotRecorded):
        await fetcher.fetch(Request(url=f"{URL}other"))
    assert egresses == []


async def test_every_other_fetcher_uses_the_egress(egresses, tmp_path):
    for settings in ({}, {"cache": f"disk:{tmp_path}/pages"}, {"warc": str(tmp_path / "b.warc.gz")}):
        egresses.clear()
        fetcher = await open_http(**settings)
        with pytest.raises(ConnectionRefusedError):
            await fetcher.fetch(Request(url=URL))
        assert egresses == ["created", URL]
        await fetcher.close()


@pytest.mark.parametrize(("engine", "kind"), [("wreq", WreqEngine), ("aiohttp", AioHttpEngine)])
async def test_the_setting_engine_chooses_the_http_client(engine, kind):
    fetcher = await open_http(engine=engine)
    assert type(fetcher._engine) is kind
    await fetcher.close()


async def test_settings_are_layers_around_the_fetcher(tmp_path):
    kinds = {
        RedirectingClient: {},
        CachingFetcher: {"cache": f"disk:{tmp_path}/pages"},
        RecordingFetcher: {"warc": str(tmp_path / "c.warc.gz")},
    }
    for kind, settings in kinds.items():
        fetcher = await open_http(**settings)
        assert type(fetcher) is kind
        await fetcher.close()


@pytest.mark.parametrize(
    ("user", "wanted", "is_warned"),
    [(0, {"browser"}, True), (0, {"auto", None}, True), (0, {"http"}, False), (1000, {"browser"}, False)],
)
def test_the_operator_is_warned_of_a_browser_without_its_sandbox(monkeypatch, user, wanted, is_warned):
    monkeypatch.setattr(os, "geteuid", lambda: user)
    assert ("without its sandbox" in (sandbox_notice(wanted) or "")) is is_warned


MODULE = """
import os

def no_fetcher(options):
    return 7

def raises(options):
    return os.environ["NO_SUCH_GATEWAY"]
"""


class Options:
    """What a fetcher is opened with."""

    http = limits = egress = None


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_fetcher", "TypeError: it returned a int, which has no method fetch"),
        ("raises", r"KeyError: 'NO_SUCH_GATEWAY' \("),
    ],
)
def test_a_fetcher_that_cannot_be_opened_is_named_with_its_package(tmp_path, monkeypatch, name, reason):
    names = {"no_fetcher": "gateways:no_fetcher", "raises": "gateways:raises"}
    monkeypatch.syspath_prepend(
        str(install(tmp_path, "gateways", {"shoal.fetchers": names}, gateways=MODULE))
    )
    assert name in FETCHERS.plugin_names()
    with pytest.raises(
        PluginFailed, match=f"The fetcher '{name}' of the package gateways 1.0 cannot be used: {reason}"
    ):
        with_named(Options, [name])


def realm(run_id="r", **tokens):
    settings = ScraperSettings.read(tokens={"hosts": "api.test", **tokens})
    return realm_of(settings, run_id)


def test_runs_with_the_same_tokens_share_pages_and_others_do_not(tmp_path, monkeypatch):
    file = tmp_path / "tokens.txt"
    for place, give in (
        ("env:MINE", lambda text: monkeypatch.setenv("MINE", text)),
        (f"file:{file}", file.write_text),
    ):
        give("of-alice")
        alice = realm(**{"from": place})
        assert realm("another", **{"from": place}) == alice
        give("of-bob")
        assert realm(**{"from": place}) != alice


def test_tokens_from_a_function_are_for_one_run():
    given = {"from": lambda: ["x"]}
    assert realm("a", **given) == realm("a", **given) != realm("b", **given)


def test_runs_with_the_same_secret_headers_share_files_and_others_do_not():
    def of(**headers):
        return realm_of(ScraperSettings.read(headers=headers), "r")

    assert of(Authorization="alice") == of(Authorization="alice", Accept="x") != of(Authorization="bob")
    assert of() == of(Accept="x") and "alice" not in of(Authorization="alice")


@pytest.mark.parametrize("token", ["of-alice", "of-bob"])
def test_a_realm_contains_no_token(token):
    assert token not in realm(**{"from": [token]})
