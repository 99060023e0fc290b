"""Authentication: every route is tried, so that a new one cannot be forgotten."""

import asyncio
import re
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from shoal.web.middleware import SecurityMiddleware
from tests.unit.web.tokens import HERE, OPERATOR, READER

PUBLIC = {"/healthz", "/readyz", "/login"}
JSON_PATHS = ("/api", "/metrics", "/live")
HEADERS = {
    "content-security-policy": "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; "
    "form-action 'self'; object-src 'none'",
    "x-frame-options": "DENY",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


def routes_of(web):
    """Return every method and path of the app, with a value for each path parameter."""
    found = []
    for route in iter_route_contexts(web.routes):
        path = re.sub(r"\{[^}]*\}", "aa", route.path)
        if route.methods is None:
            found.append(("GET", f"{path}/shoal.js"))
        found += [(method, path) for method in route.methods or ()]
    assert len(found) > 60
    return sorted(found)


async def test_every_route_requires_authentication(dashboard):
    async with dashboard.client() as anonymous:
        for method, path in routes_of(dashboard.web):
            response = await anonymous.request(method, path)
            if path in PUBLIC:
                assert response.status_code in (200, 403), path
            elif path.startswith(JSON_PATHS):
                assert response.status_code == 401, path
                assert response.headers["www-authenticate"] == "Bearer"
                assert method == "HEAD" or response.json()["error"] == "Unauthorized"
            else:
                assert response.status_code == 303, path
                assert response.headers["location"].startswith("/login")


async def test_an_unknown_path_reveals_nothing_without_authentication(dashboard):
    async with dashboard.client() as anonymous:
        assert (await anonymous.get("/api/nothing")).status_code == 401
        assert (await anonymous.get("/nothing")).status_code == 303
        assert (await anonymous.get("/static/../app.py")).status_code == 303


async def test_a_reader_can_read_everything_and_change_nothing(dashboard):
    async with dashboard.client(READER) as reader:
        for method, path in routes_of(dashboard.web):
            if method == "GET" and not path.startswith("/live"):
                # Confirmation pages are for operators only.
                refused = () if path.startswith("/api") else (403,)
                assert (await reader.get(path)).status_code in (200, 404, 422, *refused), path
            if method not in ("GET", "HEAD") and path not in ("/login", "/logout"):
                response = await reader.request(method, path, json={})
                assert response.status_code in (403, 422), path
    assert await dashboard.queue.notes("web actions") == {}


async def test_a_reader_is_rejected_before_the_body_is_read(dashboard):
    run = await dashboard.make_run()
    bodies = {
        f"/api/runs/{run.id}/pause": None,
        f"/api/runs/{run.id}/cancel": None,
        f"/api/runs/{run.id}/dead/replay": {"where": {}},
        f"/api/runs/{run.id}/dead/drop": {"where": {}},
        f"/api/runs/{run.id}/enqueue": {"urls": ["https://a.example.com/"]},
        "/api/runs": {"scraper": "books", "urls": ["https://a.example.com/"]},
        "/api/hosts/a.example.com/pause": {"seconds": 60},
        "/api/hosts/a.example.com/slow": {"seconds": 60},
        "/api/scrape": {"scraper": "books", "url": "https://a.example.com/"},
    }
    async with dashboard.client(READER) as reader:
        for path, body in bodies.items():
            response = await reader.post(path, json=body)
            assert (response.status_code, response.json()["error"]) == (403, "Forbidden"), path
        assert (await reader.delete(f"/api/runs/{run.id}")).status_code == 403
    assert (await dashboard.queue.run(run.id)).state == "running"


async def test_a_read_only_server_rejects_changes_by_an_operator(dashboard_with):
    async with dashboard_with(read_only=True) as dashboard:
        run = await dashboard.make_run()
        async with dashboard.client(OPERATOR) as operator:
            response = await operator.post(f"/api/runs/{run.id}/pause")
    assert (response.status_code, response.json()["error"]) == (403, "ReadOnly")


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:9999"},
        {"Origin": "https://127.0.0.1:8700"},
        {},
        {"Origin": HERE, "Sec-Fetch-Site": "cross-site"},
    ],
    ids=str,
)
async def test_a_page_of_another_site_cannot_use_a_session(dashboard, headers):
    run = await dashboard.make_run()
    async with dashboard.client() as browser:
        await browser.post("/login", data={"token": OPERATOR})
        for method, path in routes_of(dashboard.web):
            if method not in ("GET", "HEAD"):
                response = await browser.request(method, path.replace("aa", run.id), headers=headers)
                assert response.status_code == 403, path
    assert (await dashboard.queue.run(run.id)).state == "running"


async def test_a_session_works_from_the_servers_own_pages(dashboard):
    run = await dashboard.make_run()
    async with dashboard.client() as browser:
        await browser.post("/login", data={"token": OPERATOR})
        own = {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}
        response = await browser.post(f"/api/runs/{run.id}/pause", headers=own)
    assert response.json() == {"run_id": run.id, "state": "paused"}


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8700", "127.0.0.1", "127.0.0.1:9999", "localhost.evil.example:8700", ""],
)
async def test_a_host_header_that_is_not_allowed_is_rejected(dashboard, host):
    async with dashboard.client(OPERATOR, headers={"Host": host}) as client:
        for _, path in routes_of(dashboard.web):
            if path not in ("/healthz", "/readyz"):
                response = await client.get(path)
                assert response.status_code == 421, path
                assert "--allow-host" in response.text


async def test_health_checks_accept_any_host_header(dashboard):
    async with dashboard.client(headers={"Host": "10.244.0.17:8700"}) as probe:
        assert (await probe.get("/healthz")).json() == {"status": "ok"}
        assert (await probe.head("/readyz")).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "LOCALHOST:8700", "[::1]:8700"])
async def test_loopback_host_headers_are_accepted(dashboard, host):
    async with dashboard.client(OPERATOR, headers={"Host": host}) as client:
        assert (await client.get("/api/runs")).status_code == 200


async def test_every_response_has_the_security_headers(dashboard):
    async with dashboard.client() as anonymous, dashboard.client(OPERATOR) as operator:
        responses = [
            await anonymous.get("/api/runs"),
            await anonymous.get("/"),
            await anonymous.get("/login"),
            await anonymous.get("/healthz"),
            await anonymous.get("/", headers={"Host": "evil.example"}),
            await anonymous.post("/healthz"),
            await operator.get("/api/runs"),
            await operator.get("/api/nothing"),
            await operator.get("/static/nothing"),
            await operator.post("/api/runs", json={"bad": 1}),
        ]
    for response in responses:
        found = {name: response.headers.get(name) for name in HEADERS}
        assert found == HEADERS, response.url


async def test_an_unexpected_error_has_the_headers_and_reveals_no_text(dashboard, monkeypatch, caplog):
    async def broken():
        raise RuntimeError("c4nary-secret")

    monkeypatch.setattr(dashboard.queue, "runs", broken)
    async with dashboard.client(OPERATOR) as operator:
        response = await operator.get("/api/runs")
    assert response.status_code == 500
    assert HEADERS.items() <= dict(response.headers).items()
    assert "c4nary" not in response.text + caplog.text
    assert "RuntimeError" in caplog.text


async def test_a_wrong_token_is_rejected_and_too_many_are_locked_out(dashboard):
    async with dashboard.client("wrong-token-0123456789") as attacker:
        responses = [await attacker.get("/api/runs") for _ in range(11)]
    assert [response.status_code for response in responses] == [401] * 10 + [429]
    assert 0 < int(responses[-1].headers["retry-after"]) <= 60


async def test_a_valid_token_is_never_locked_out(dashboard):
    async with dashboard.client("wrong-token-0123456789") as attacker, dashboard.client(OPERATOR) as operator:
        for _ in range(12):
            await attacker.get("/api/runs")
        assert (await operator.get("/api/runs")).status_code == 200


async def test_a_body_that_is_too_large_is_not_read(dashboard):
    async with dashboard.client(OPERATOR) as operator:
        response = await operator.post("/api/hosts/a.example/pause", content=b"x" * ((1 << 20) + 1))
        assert (response.status_code, response.json()["error"]) == (413, "TooLarge")

        sent = []

        async def endless():
            for _ in range(34):
                sent.append(1)
                yield b" " * (1 << 20)

        headers = {"Content-Type": "application/json", "Content-Length": str(34 << 20)}
        response = await operator.post("/api/runs", content=endless(), headers=headers)
        assert (response.status_code, sent) == (413, [])

        response = await operator.post(
            "/api/runs", content=endless(), headers={"Content-Type": "application/json"}
        )
        assert (response.status_code, response.json()["error"]) == (413, "TooLarge")


async def test_it_can_be_mounted_in_another_app(dashboard):
    own = FastAPI()
    own.mount("/shoal", dashboard.web)
    mounted = replace(dashboard, web=own)
    async with mounted.client() as anonymous, mounted.client(OPERATOR) as operator:
        assert (await anonymous.get("/shoal/api/runs")).status_code == 401
        redirect = await anonymous.get("/shoal/runs?x=1")
        assert (redirect.status_code, redirect.headers["location"]) == (
            303,
            "/shoal/login?next=%2Fruns%3Fx%3D1",
        )
        assert (await operator.get("/shoal/api/runs")).status_code == 200
        assert (await operator.get("/shoal/")).status_code == 200
        response = await anonymous.post("/shoal/login", data={"token": OPERATOR, "next": "/runs"})
        assert response.headers["location"] == "/shoal/runs"


async def test_a_websocket_is_rejected(dashboard):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/live", "headers": [], "query_string": b"", "subprotocols": []}
    await dashboard.web(scope, None, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_a_slow_body_times_out(dashboard, monkeypatch):
    monkeypatch.setattr("shoal.web.middleware.BODY_TIMEOUT_SECONDS", 0.05)

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    async with dashboard.client(OPERATOR) as operator:
        response = await operator.post(
            "/api/runs", content=slow(), headers={"Content-Type": "application/json"}
        )
    assert (response.status_code, response.json()["error"]) == (408, "TooSlow")


async def test_a_path_cannot_forge_a_log_line(dashboard, caplog):
    async def broken(scope, receive, send):
        raise RuntimeError

    settings = dashboard.web.state.context.settings
    logins = dashboard.web.state.logins
    middleware = SecurityMiddleware(broken, settings, logins.credentials, logins.throttle)
    async with replace(dashboard, web=middleware).client(OPERATOR) as operator:
        assert (await operator.get("/api/a%0d%0aforged%1b[2J")).status_code == 500
    (line,) = caplog.messages
    assert line.isprintable()
