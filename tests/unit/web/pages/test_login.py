"""Login: tokens, tickets, cookies and the throttle."""

import time

import pytest

from shoal.web.auth import (
    MAX_FAILURES,
    MAX_FAILURES_PER_ADDRESS,
    TICKET_TTL_SECONDS,
    Credentials,
    Throttle,
    Ticket,
)
from shoal.web.context import WebSettings
from shoal.web.pages.login import own_path
from tests.unit.web.tokens import HERE, OPERATOR, READER


class Clock:
    now = 1_000.0

    def __call__(self):
        return self.now


async def test_login_sets_a_cookie_that_scripts_and_other_sites_cannot_use(dashboard):
    async with dashboard.client() as browser:
        response = await browser.post("/login", data={"token": OPERATOR, "next": "/runs"})
        assert (response.status_code, response.headers["location"]) == (303, "/runs")
        cookie = response.headers["set-cookie"].lower()
        assert {"httponly", "samesite=strict", "path=/", "max-age=43200"} <= set(cookie.split("; "))
        assert "secure" not in cookie
        assert OPERATOR not in cookie
        assert (await browser.get("/api/runs")).status_code == 200


async def test_behind_https_the_cookie_is_never_sent_over_http(dashboard_with):
    async with dashboard_with(is_behind_https=True, allowed_hosts=["shoal.example"]) as dashboard:
        own = {"Host": "shoal.example", "Origin": "https://shoal.example"}
        async with dashboard.client() as browser:
            response = await browser.post("/login", data={"token": OPERATOR}, headers=own)
            assert (
                await browser.post("/login", data={}, headers=own | {"Origin": "http://shoal.example"})
            ).status_code == 403
            logout = await browser.post("/logout", headers=own | {"Cookie": response.headers["set-cookie"]})
    assert response.status_code == 303
    assert {"secure", "path=/"} <= set(logout.headers["set-cookie"].lower().split("; "))
    assert response.headers["set-cookie"].startswith("__Host-shoal_8700=")
    assert "; secure" in response.headers["set-cookie"].lower()


async def test_a_wrong_token_sets_no_cookie(dashboard):
    async with dashboard.client() as browser:
        response = await browser.post("/login", data={"token": OPERATOR[:-1]})
    assert response.status_code == 403
    assert "set-cookie" not in response.headers


async def test_ten_failures_lock_the_login_for_that_address_only(dashboard):
    async with dashboard.client(address="10.0.0.1") as one, dashboard.client(address="10.0.0.2") as other:
        for _ in range(MAX_FAILURES_PER_ADDRESS):
            assert (await one.post("/login", data={"token": "x"})).status_code == 403
        response = await one.post("/login", data={"token": OPERATOR})
        assert response.status_code == 429
        assert 0 < int(response.headers["retry-after"]) <= 60
        assert (await other.post("/login", data={"token": OPERATOR})).status_code == 303


def test_a_hundred_failures_lock_the_login_for_all_addresses_for_a_minute():
    clock = Clock()
    throttle = Throttle(clock)
    for number in range(MAX_FAILURES):
        assert throttle.wait_seconds("new") == 0
        throttle.record_failure(f"10.0.0.{number}")
    assert throttle.wait_seconds("new") == 60
    clock.now += 59.5
    assert throttle.wait_seconds("new") == 1
    clock.now += 0.6
    assert throttle.wait_seconds("new") == 0


async def test_a_ticket_logs_in_once(dashboard):
    ticket = dashboard.web.state.logins.ticket.text
    async with dashboard.client() as first, dashboard.client() as second:
        response = await first.get("/login", params={"ticket": ticket})
        assert (response.status_code, response.headers["location"]) == (303, "/")
        assert (await first.get("/api/runs")).status_code == 200
        again = await second.get("/login", params={"ticket": ticket})
        assert again.status_code == 403
        assert "set-cookie" not in again.headers
        assert (await second.get("/api/runs")).status_code == 401


def test_a_ticket_is_valid_for_ten_minutes():
    clock = Clock()
    early, late = Ticket(clock), Ticket(clock)
    clock.now += TICKET_TTL_SECONDS - 1
    assert early.redeem(early.text)
    clock.now += 1
    assert not late.redeem(late.text)


async def test_wrong_tickets_lock_nobody_out_because_any_site_could_send_them(dashboard):
    async with dashboard.client() as operator:
        for _ in range(MAX_FAILURES_PER_ADDRESS + 1):
            response = await operator.get("/login?ticket=guess", headers={"Sec-Fetch-Site": "cross-site"})
            assert response.status_code == 403
        assert (await operator.post("/login", data={"token": OPERATOR})).status_code == 303


async def test_logout_ends_the_session_for_every_copy_of_its_cookie(dashboard):
    async with dashboard.client() as browser, dashboard.client() as other_browser:
        response = await browser.post("/login", data={"token": OPERATOR})
        cookie = response.headers["set-cookie"].partition(";")[0]
        other = (
            (await other_browser.post("/login", data={"token": OPERATOR}))
            .headers["set-cookie"]
            .partition(";")[0]
        )
        own = {"Cookie": cookie, "Origin": HERE}
        assert (await browser.post("/logout", headers=own)).status_code == 303
    async with dashboard.client() as other_browser:
        assert (await other_browser.get("/api/runs", headers={"Cookie": cookie})).status_code == 401
        assert (await other_browser.get("/api/runs", headers={"Cookie": other})).status_code == 200


async def test_a_login_with_the_reader_token_is_read_only(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client() as browser:
        await browser.post("/login", data={"token": READER})
        response = await browser.post(f"/api/runs/{run.id}/pause", headers={"Origin": HERE})
    assert response.status_code == 403


def test_a_forged_changed_or_outdated_cookie_is_rejected():
    ours = Credentials(WebSettings.read(operator_token=OPERATOR, reader_token=READER))
    theirs = Credentials(WebSettings.read(operator_token="another-0123456789abcdef"))
    cookie = ours.new_session("reader")
    assert ours.role_of_cookie(cookie) == "reader"
    assert ours.role_of_cookie(cookie.replace("reader", "operator")) is None
    assert ours.role_of_cookie(theirs.new_session("operator")) is None
    assert ours.role_of_cookie(cookie[:-2]) is None
    assert ours.role_of_cookie("") is None


def test_a_session_expires_after_twelve_hours(monkeypatch):
    credentials = Credentials(WebSettings.read(operator_token=OPERATOR))
    cookie = credentials.new_session("operator")
    now = time.time()
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + 12 * 3600 - 2)
    assert credentials.role_of_cookie(cookie) == "operator"
    monkeypatch.setattr("itsdangerous.timed.time.time", lambda: now + 12 * 3600 + 2)
    assert credentials.role_of_cookie(cookie) is None


@pytest.mark.parametrize(
    "text",
    ["//evil.example", "https://evil.example", "/\\evil.example", "javascript:alert(1)", "", "/a\r\nb: c"],
)
def test_login_never_redirects_to_another_site(text):
    assert own_path(text) == "/"


async def test_the_login_page_escapes_its_parameters(dashboard):
    async with dashboard.client() as browser:
        response = await browser.get("/login", params={"next": '/"><script>alert(1)</script>'})
    assert "<script" not in response.text
