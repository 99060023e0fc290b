"""Logging in: tokens, tickets, cookies, and the lock."""

import time

import pytest

from shoal.web.guard import Credentials
from shoal.web.login import own_path
from shoal.web.site import WebSettings
from shoal.web.throttle import FROM_ALL, FROM_ONE, Throttle
from shoal.web.tickets import VALID, Tickets
from tests.unit.web.doors import HERE, OPERATOR, READER

COOKIE = "shoal_8700"


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


async def test_a_token_gives_a_cookie_that_scripts_and_other_sites_cannot_use(house):
    async with house.client() as browser:
        answer = await browser.post("/login", data={"token": OPERATOR, "next": "/runs"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/runs")
        cookie = answer.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= set(cookie.split("; "))
        assert "secure" not in cookie
        assert OPERATOR not in cookie
        assert (await browser.get("/api/runs")).status_code == 200


async def test_behind_https_the_cookie_never_goes_over_http(house_with):
    async with house_with(is_behind_https=True, allowed_hosts=["shoal.example"]) as house:
        own = {"Host": "shoal.example", "Origin": "https://shoal.example"}
        async with house.client() as browser:
            answer = await browser.post("/login", data={"token": OPERATOR}, headers=own)
            assert (
                await browser.post("/login", data={}, headers=own | {"Origin": "http://shoal.example"})
            ).status_code == 403
            gone = await browser.post("/logout", headers=own | {"Cookie": answer.headers["set-cookie"]})
    assert answer.status_code == 303
    assert {"secure", "path=/"} <= set(gone.headers["set-cookie"].lower().split("; "))
    assert answer.headers["set-cookie"].startswith("__Host-shoal_8700=")
    assert "; secure" in answer.headers["set-cookie"].lower()


async def test_a_wrong_token_gives_nothing(house):
    async with house.client() as browser:
        answer = await browser.post("/login", data={"token": OPERATOR[:-1]})
    assert answer.status_code == 403
    assert "set-cookie" not in answer.headers


async def test_ten_failures_lock_the_login_for_that_address_only(house):
    async with house.client(address="10.0.0.1") as one, house.client(address="10.0.0.2") as other:
        for _ in range(FROM_ONE):
            assert (await one.post("/login", data={"token": "x"})).status_code == 403
        answer = await one.post("/login", data={"token": OPERATOR})
        assert answer.status_code == 429
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert (await other.post("/login", data={"token": OPERATOR})).status_code == 303


def test_a_hundred_failures_lock_the_login_for_all_until_a_minute_is_over():
    clock = Clock()
    throttle = Throttle(clock)
    for number in range(FROM_ALL):
        assert throttle.wait("new") == 0
        throttle.failed(f"10.0.0.{number}")
    assert throttle.wait("new") == 60
    clock.now += 59.5
    assert throttle.wait("new") == 1
    clock.now += 0.6
    assert throttle.wait("new") == 0


async def test_a_ticket_logs_in_once(house):
    ticket = house.web.state.doorkeeper.tickets.issue()
    async with house.client() as first, house.client() as second:
        answer = await first.get("/login", params={"ticket": ticket})
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        assert (await first.get("/api/runs")).status_code == 200
        again = await second.get("/login", params={"ticket": ticket})
        assert again.status_code == 403
        assert "set-cookie" not in again.headers
        assert (await second.get("/api/runs")).status_code == 401


def test_a_ticket_is_good_for_ten_minutes():
    clock = Clock()
    tickets = Tickets(clock)
    early, late = tickets.issue(), tickets.issue()
    clock.now += VALID - 1
    assert tickets.take(early)
    clock.now += 1
    assert not tickets.take(late)


async def test_wrong_tickets_lock_nobody_out_for_any_site_could_send_them(house):
    async with house.client() as operator:
        for _ in range(FROM_ONE + 1):
            answer = await operator.get("/login?ticket=guess", headers={"Sec-Fetch-Site": "cross-site"})
            assert answer.status_code == 403
        assert (await operator.post("/login", data={"token": OPERATOR})).status_code == 303


async def test_a_session_that_was_logged_out_is_over_wherever_its_cookie_is(house):
    async with house.client() as browser, house.client() as thief:
        answer = await browser.post("/login", data={"token": OPERATOR})
        cookie = answer.headers["set-cookie"].partition(";")[0]
        other = (await thief.post("/login", data={"token": OPERATOR})).headers["set-cookie"].partition(";")[0]
        own = {"Cookie": cookie, "Origin": HERE}
        assert (await browser.post("/logout", headers=own)).status_code == 303
    async with house.client() as thief:
        assert (await thief.get("/api/runs", headers={"Cookie": cookie})).status_code == 401
        assert (await thief.get("/api/runs", headers={"Cookie": other})).status_code == 200


async def test_logging_out_ends_the_session_in_this_browser(house):
    async with house.client() as browser:
        await browser.post("/login", data={"token": READER})
        await browser.post("/logout", headers={"Origin": HERE})
        assert (await browser.get("/api/runs")).status_code == 401


async def test_a_reader_who_logs_in_is_a_reader(house):
    run = await house.filled()
    async with house.client() as browser:
        await browser.post("/login", data={"token": READER})
        answer = await browser.post(f"/api/runs/{run.id}/pause", headers={"Origin": HERE})
    assert answer.status_code == 403


def test_a_cookie_that_was_forged_changed_or_outlived_its_token_is_worth_nothing():
    ours = Credentials(WebSettings.read(operator_token=OPERATOR, reader_token=READER))
    theirs = Credentials(WebSettings.read(operator_token="another-0123456789abcdef"))
    cookie = ours.session("reader")
    assert ours.role_of_cookie(cookie) == "reader"
    assert ours.role_of_cookie(cookie.replace("reader", "operator")) is None
    assert ours.role_of_cookie(theirs.session("operator")) is None
    assert ours.role_of_cookie(cookie[:-2]) is None
    assert ours.role_of_cookie("") is None


def test_a_session_is_over_after_twelve_hours(monkeypatch):
    credentials = Credentials(WebSettings.read(operator_token=OPERATOR))
    cookie = credentials.session("operator")
    now = time.time()
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + 12 * 3600 - 2)
    assert credentials.role_of_cookie(cookie) == "operator"
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + 12 * 3600 + 2)
    assert credentials.role_of_cookie(cookie) is None


@pytest.mark.parametrize(
    "text",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\r\nb: c"],
)
def test_a_login_leads_to_no_other_site(text):
    assert own_path(text) == "/"


async def test_the_login_page_escapes_what_it_is_told(house):
    async with house.client() as browser:
        answer = await browser.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script" not in answer.text
