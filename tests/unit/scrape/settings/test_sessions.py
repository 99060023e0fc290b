"""The setting `sessions`, and the argument of a login."""

import asyncio
import time
from datetime import timedelta

import pytest

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.http import Headers, Response
from shoal.scrape.login import LoginSession
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.sessions import SessionSettings


def read(value):
    return ScraperSettings.read(sessions=value).sessions


def test_a_number_a_text_and_names_say_the_same():
    wanted = SessionSettings(
        size=5, max_uses=500, max_age=timedelta(hours=1), profiles=("chrome",), per="run"
    )
    assert read("5 max_uses=500 max_age=1h profile=chrome per=run") == wanted
    assert read({"size": 5, "max_uses": 500, "max_age": "1h", "profile": "chrome", "per": "run"}) == wanted
    assert read(5) == SessionSettings(size=5)
    assert read(True) == SessionSettings()
    assert read("off") is None


def test_no_browser_is_worn_unless_one_is_named():
    assert read(3).profiles == ()
    assert read("3 profile=chrome,firefox152").profiles == ("chrome", "firefox152")


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "sessions.size must be a whole number"),
        ("5 5", "must look like"),
        ("5 profil=chrome", "Did you mean 'profile'?"),
        ("5 profile=chorme", "Did you mean 'chrome'?"),
        ({"per": "task"}, "'host' or 'run'"),
        ("ten", "must look like"),
    ],
)
def test_what_cannot_be_used_is_refused(value, said):
    with pytest.raises(InvalidSetting) as caught:
        read(value)
    assert said in str(caught.value)


def test_a_scraper_has_one_login_which_its_copies_keep():
    shop = Scraper("shop", sessions=2)

    @shop.login
    async def log_in(session):
        pass

    assert shop.replace(rate="5/s").login_function is log_in
    with pytest.raises(InvalidSetting, match="is already defined"):
        shop.login(log_in)
    with pytest.raises(InvalidInput, match="async function"):
        Scraper("other").login(lambda session: None)


class Desk:
    """Responds to a login, and records the requests."""

    def __init__(self):
        self.asked, self.moments, self.said = [], [], []

    async def send(self, request):
        self.asked.append(request)
        self.moments.append(time.monotonic())
        html = Headers([("content-type", "text/html")])
        return Response(url=request.url, status=200, headers=html, body=b"<input name=csrf value=abc>")

    def say(self, host, name, value):
        self.said.append((host, name, value))

    def session(self, **more):
        return LoginSession(self.send, self.say, number=1, origin="https://shop.test", **more)


async def test_a_login_reads_a_page_and_sends_a_form():
    desk = Desk()
    session = desk.session()
    page = await session.get("https://shop.test/login")
    csrf = page.attr("input[name=csrf]", "value")
    await session.post("https://shop.test/login", form={"user": "a b", "csrf": csrf, "tag": ["x", "y"]})
    await session.post("https://shop.test/api", json={"a": 1})
    assert [request.post for request in desk.asked] == [None, b"user=a+b&csrf=abc&tag=x&tag=y", b'{"a":1}']
    assert desk.asked[1].headers["content-type"] == "application/x-www-form-urlencoded"
    assert "a+b" not in repr(desk.asked[1])


async def test_a_login_asks_one_at_a_time_and_keeps_the_gap():
    desk = Desk()
    session = desk.session(gap=timedelta(milliseconds=50))
    await asyncio.gather(*(session.get("https://shop.test/") for _ in range(3)))
    gaps = [later - sooner for sooner, later in zip(desk.moments, desk.moments[1:], strict=False)]
    assert min(gaps) >= 0.045


def test_a_header_is_for_its_own_host_unless_another_is_named():
    desk = Desk()
    session = desk.session()
    session.header("Authorization", "Bearer x")
    session.header("X-Key", "y", host="api.shop.test")
    session.header("X-Key", "z", host="http://localhost:80")
    assert session.host == "shop.test"
    assert desk.said == [
        ("https://shop.test", "Authorization", "Bearer x"),
        ("https://api.shop.test", "X-Key", "y"),
        ("http://localhost", "X-Key", "z"),
    ]


async def test_a_post_needs_something_to_send():
    with pytest.raises(InvalidInput, match="a form or JSON"):
        await Desk().session().post("https://shop.test/")
