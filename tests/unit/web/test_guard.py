"""Who may come in: every route is tried, so that a new one cannot be forgotten."""

import asyncio
import re
from dataclasses import replace

import pytest
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts

from shoal.web.door import Door
from tests.unit.web.doors import HERE, OPERATOR, READER

OPEN = {"/healthz", "/readyz", "/login"}
FOR_PROGRAMS = ("/api", "/metrics", "/live")
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
    """Return every method and path that the app answers, with something in the place of names."""
    found = []
    for route in iter_route_contexts(web.routes):
        path = re.sub(r"\{[^}]*\}", "aa", route.path)
        if route.methods is None:
            found.append(("GET", f"{path}/shoal.js"))
        found += [(method, path) for method in route.methods or ()]
    assert len(found) > 60
    return sorted(found)


async def test_every_route_refuses_strangers(house):
    async with house.client() as stranger:
        for method, path in routes_of(house.web):
            answer = await stranger.request(method, path)
            if path in OPEN:
                assert answer.status_code in (200, 403), path
            elif path.startswith(FOR_PROGRAMS):
                assert answer.status_code == 401, path
                assert answer.headers["www-authenticate"] == "Bearer"
                assert method == "HEAD" or answer.json()["error"] == "Unauthorized"
            else:
                assert answer.status_code == 303, path
                assert answer.headers["location"].startswith("/login")


async def test_what_is_not_there_tells_a_stranger_nothing(house):
    async with house.client() as stranger:
        assert (await stranger.get("/api/nothing")).status_code == 401
        assert (await stranger.get("/nothing")).status_code == 303
        assert (await stranger.get("/static/../app.py")).status_code == 303


async def test_a_reader_may_look_everywhere_and_change_nothing(house):
    async with house.client(READER) as reader:
        for method, path in routes_of(house.web):
            if method == "GET" and not path.startswith("/live"):
                # Some pages ask an operator whether they are sure, and are for nobody else.
                refused = () if path.startswith("/api") else (403,)
                assert (await reader.get(path)).status_code in (200, 404, 422, *refused), path
            if method not in ("GET", "HEAD") and path not in ("/login", "/logout"):
                answer = await reader.request(method, path, json={})
                assert answer.status_code in (403, 422), path
    assert await house.queue.notes("web actions") == {}


async def test_whatever_changes_something_is_refused_to_a_reader_before_it_is_read(house):
    run = await house.filled()
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
    async with house.client(READER) as reader:
        for path, body in bodies.items():
            answer = await reader.post(path, json=body)
            assert (answer.status_code, answer.json()["error"]) == (403, "Forbidden"), path
        assert (await reader.delete(f"/api/runs/{run.id}")).status_code == 403
    assert (await house.queue.run(run.id)).state == "running"


async def test_a_read_only_server_refuses_its_operator_too(house_with):
    async with house_with(read_only=True) as house:
        run = await house.filled()
        async with house.client(OPERATOR) as operator:
            answer = await operator.post(f"/api/runs/{run.id}/pause")
    assert (answer.status_code, answer.json()["error"]) == (403, "ReadOnly")


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
async def test_a_page_of_another_site_cannot_use_a_session(house, headers):
    run = await house.filled()
    async with house.client() as browser:
        await browser.post("/login", data={"token": OPERATOR})
        for method, path in routes_of(house.web):
            if method not in ("GET", "HEAD"):
                answer = await browser.request(method, path.replace("aa", run.id), headers=headers)
                assert answer.status_code == 403, path
    assert (await house.queue.run(run.id)).state == "running"


async def test_a_session_works_from_the_servers_own_pages(house):
    run = await house.filled()
    async with house.client() as browser:
        await browser.post("/login", data={"token": OPERATOR})
        own = {"Origin": HERE, "Sec-Fetch-Site": "same-origin"}
        answer = await browser.post(f"/api/runs/{run.id}/pause", headers=own)
    assert answer.json() == {"run_id": run.id, "state": "paused"}


@pytest.mark.parametrize(
    "host",
    ["evil.example", "evil.example:8700", "127.0.0.1", "127.0.0.1:9999", "localhost.evil.example:8700", ""],
)
async def test_a_name_that_was_not_allowed_is_not_answered(house, host):
    async with house.client(OPERATOR, headers={"Host": host}) as client:
        for _, path in routes_of(house.web):
            if path not in ("/healthz", "/readyz"):
                answer = await client.get(path)
                assert answer.status_code == 421, path
                assert "--allow-host" in answer.text


async def test_a_probe_may_ask_for_health_by_any_address(house):
    async with house.client(headers={"Host": "10.244.0.17:8700"}) as probe:
        assert (await probe.get("/healthz")).json() == {"status": "ok"}
        assert (await probe.head("/readyz")).status_code == 200


@pytest.mark.parametrize("host", ["127.0.0.1:8700", "localhost:8700", "LOCALHOST:8700", "[::1]:8700"])
async def test_the_names_of_this_machine_are_answered(house, host):
    async with house.client(OPERATOR, headers={"Host": host}) as client:
        assert (await client.get("/api/runs")).status_code == 200


async def test_every_answer_has_the_headers(house):
    async with house.client() as stranger, house.client(OPERATOR) as operator:
        answers = [
            await stranger.get("/api/runs"),
            await stranger.get("/"),
            await stranger.get("/login"),
            await stranger.get("/healthz"),
            await stranger.get("/", headers={"Host": "evil.example"}),
            await stranger.post("/healthz"),
            await operator.get("/api/runs"),
            await operator.get("/api/nothing"),
            await operator.get("/static/nothing"),
            await operator.post("/api/runs", json={"bad": 1}),
        ]
    for answer in answers:
        found = {name: answer.headers.get(name) for name in HEADERS}
        assert found == HEADERS, answer.url


async def test_an_error_that_nobody_foresaw_has_the_headers_and_no_words(house, monkeypatch, caplog):
    async def broken():
        raise RuntimeError("c4nary-secret")

    monkeypatch.setattr(house.queue, "runs", broken)
    async with house.client(OPERATOR) as operator:
        answer = await operator.get("/api/runs")
    assert answer.status_code == 500
    assert HEADERS.items() <= dict(answer.headers).items()
    assert "c4nary" not in answer.text + caplog.text
    assert "RuntimeError" in caplog.text


async def test_static_files_are_kept_for_a_day(house):
    async with house.client() as stranger:
        answer = await stranger.get("/static/shoal.css")
    assert answer.headers["cache-control"] == "public, max-age=86400, immutable"


async def test_a_wrong_token_is_refused_and_too_many_are_locked_out(house):
    async with house.client("wrong-token-0123456789") as guesser:
        answers = [await guesser.get("/api/runs") for _ in range(11)]
    assert [answer.status_code for answer in answers] == [401] * 10 + [429]
    assert 0 < int(answers[-1].headers["retry-after"]) <= 60


async def test_nobody_can_lock_out_a_program_with_the_right_token(house):
    async with house.client("wrong-token-0123456789") as guesser, house.client(OPERATOR) as operator:
        for _ in range(12):
            await guesser.get("/api/runs")
        assert (await operator.get("/api/runs")).status_code == 200


async def test_a_body_that_is_too_large_is_not_read(house):
    async with house.client(OPERATOR) as operator:
        answer = await operator.post("/api/hosts/a.example/pause", content=b"x" * ((1 << 20) + 1))
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")

        sent = []

        async def endless():
            for _ in range(34):
                sent.append(1)
                yield b" " * (1 << 20)

        said = {"Content-Type": "application/json", "Content-Length": str(34 << 20)}
        answer = await operator.post("/api/runs", content=endless(), headers=said)
        assert (answer.status_code, sent) == (413, [])

        answer = await operator.post(
            "/api/runs", content=endless(), headers={"Content-Type": "application/json"}
        )
        assert (answer.status_code, answer.json()["error"]) == (413, "TooLarge")


async def test_it_can_be_mounted_in_an_app_of_yours(house):
    own = FastAPI()
    own.mount("/shoal", house.web)
    mounted = replace(house, web=own)
    async with mounted.client() as stranger, mounted.client(OPERATOR) as operator:
        assert (await stranger.get("/shoal/api/runs")).status_code == 401
        away = await stranger.get("/shoal/runs?x=1")
        assert (away.status_code, away.headers["location"]) == (303, "/shoal/login?next=%2Fruns%3Fx%3D1")
        assert (await operator.get("/shoal/api/runs")).status_code == 200
        assert (await operator.get("/shoal/")).status_code == 200
        answer = await stranger.post("/shoal/login", data={"token": OPERATOR, "next": "/runs"})
        assert answer.headers["location"] == "/shoal/runs"


async def test_a_websocket_is_refused(house):
    sent = []

    async def send(message):
        sent.append(message)

    scope = {"type": "websocket", "path": "/live", "headers": [], "query_string": b"", "subprotocols": []}
    await house.web(scope, None, send)
    assert [message["type"] for message in sent] == ["websocket.close"]


async def test_whoever_lets_the_server_wait_for_a_body_is_shown_out(house, monkeypatch):
    monkeypatch.setattr("shoal.web.door.PATIENCE", 0.05)

    async def slow():
        yield b"{"
        await asyncio.Event().wait()

    async with house.client(OPERATOR) as operator:
        answer = await operator.post(
            "/api/runs", content=slow(), headers={"Content-Type": "application/json"}
        )
    assert (answer.status_code, answer.json()["error"]) == (408, "TooSlow")


async def test_nobody_can_forge_a_line_of_the_log(house, caplog):
    async def broken(scope, receive, send):
        raise RuntimeError

    settings = house.web.state.site.settings
    keeper = house.web.state.doorkeeper
    door = Door(broken, settings, keeper.credentials, keeper.throttle)
    async with replace(house, web=door).client(OPERATOR) as operator:
        assert (await operator.get("/api/a%0d%0aforged%1b[2J")).status_code == 500
    (line,) = caplog.messages
    assert line.isprintable()
