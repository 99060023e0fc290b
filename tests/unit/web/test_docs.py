"""The docs of the server and the API match the code."""

import re
from pathlib import Path

import typer

from shoal.cli.registry import app_for
from shoal.fleet.run.feed import MAX_REPORTED
from shoal.fleet.status import overview
from shoal.fleet.status.rates import MAX_POINTS
from shoal.web import audit, auth, context, middleware, sampler, stream
from shoal.web.pages import dead, fleet, lists, runs, schedules, start
from shoal.web.views import paging

DOCS = Path(__file__).parents[3] / "docs"
SERVE, API = (DOCS / "how-to" / "serve.md").read_text(), (DOCS / "reference" / "api.md").read_text()
CLI = (DOCS / "reference" / "cli.md").read_text()
PARTS = (dead, fleet, lists, runs, schedules, start)
CONFIRMATIONS = {
    f"/runs/{{run_id}}/{verb}"
    for verb in ("cancel", "replay", "drop", "edit", "start-workers", "stop-workers")
}


def test_every_page_of_the_control_room_is_listed():
    listed = re.findall(r"^\| `(/[^`]*)` \|", SERVE, re.MULTILINE)
    named = {
        path.replace("RUN", "{run_id}").replace("LETTER", "{letter}").replace("SCRAPER", "{scraper}")
        for path in listed
    }
    there = {route.path for part in PARTS for route in part.router.routes if "GET" in route.methods}
    assert named == there - CONFIRMATIONS


def test_the_numbers_of_the_control_room_are_those_of_the_code():
    assert "every two seconds" in SERVE and sampler.SAMPLE_INTERVAL.total_seconds() == 2
    assert "for 30 seconds it pauses" in SERVE and sampler.IDLE_TIMEOUT.total_seconds() == 30
    assert f"{stream.MAX_CLIENTS} tabs may be open" in SERVE
    assert f"{lists.ITEM_ROWS} at a time" in SERVE
    assert "the last five minutes" in SERVE and overview.ERRORS_SHOWN.total_seconds() == 300
    assert f"{MAX_POINTS} points at most" in SERVE


def test_the_docs_list_exactly_the_existing_routes(dashboard):
    described = dashboard.web.openapi()["paths"]
    there = {(method.upper(), path) for path, methods in described.items() for method in methods}
    looking = {("GET", path) for path in re.findall(r"^\| `(/api\S*)` \|", API, re.MULTILINE)}
    changing = set(re.findall(r"^\| `(POST|DELETE|PATCH) (/api\S*)` \|", API, re.MULTILINE))
    beside = {("GET", path) for path in ("/healthz", "/readyz", "/metrics")}
    assert looking | changing | beside == there


def test_every_status_of_the_api_is_listed(dashboard):
    described = dashboard.web.openapi()["paths"]
    statuses = {
        status
        for methods in described.values()
        for operation in methods.values()
        for status in operation["responses"]
        if status >= "400"
    }
    listed = set(re.findall(r"^\| (\d{3}) \|", API, re.MULTILINE))
    assert statuses <= listed


def test_the_numbers_are_those_of_the_code():
    assert f"at least {context.MIN_TOKEN_LENGTH} characters" in SERVE
    assert f"for {auth.SESSION.total_seconds() / 3600:g} hours" in SERVE
    assert auth.TICKET_TTL_SECONDS == 600 and "within ten minutes" in SERVE
    assert f"After {auth.MAX_FAILURES_PER_ADDRESS} wrong tokens in a minute" in SERVE
    assert f"or {auth.MAX_FAILURES} from all" in SERVE and auth.LOCK_TIMEOUT_SECONDS == 60
    assert f"for {audit.AUDIT_TTL.days} days" in SERVE
    assert f"`limit` is {paging.DEFAULT_LIMIT}, and {paging.MAX_LIMIT:,} at most" in API
    assert f"{paging.MAX_SCANNED:,} rows at most" in API
    assert f"{middleware.MAX_BODY >> 20} MB at most, {middleware.MAX_TASKS_BODY >> 20} MB" in API
    assert f"the first {MAX_REPORTED} that" in API
    assert f"newest {overview.MAX_RUNS} runs" in API
    assert f"{context.MAX_WORKERS} at a time, or `--max-workers N`" in SERVE
    assert f"`SHOAL_WEB_MAX_WORKERS` | - | `{context.MAX_WORKERS}` |" in CLI


def test_the_documented_options_exist():
    command = typer.main.get_command(app_for()).commands["serve"]
    known = {option for param in command.params for option in param.opts}
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", SERVE))
    assert shown and shown <= known
    variables = {param.envvar for param in command.params if getattr(param, "envvar", None)}
    shown = set(re.findall(r"SHOAL_WEB_\w+", CLI)) - {"SHOAL_WEB_TOKEN", "SHOAL_WEB_READER_TOKEN"}
    assert shown | {"SHOAL_QUEUE"} == variables
