"""The pages on the server say what is there."""

import re
from pathlib import Path

import typer

from shoal.cli.commands import app_for
from shoal.fleet.filling import MOST_TOLD
from shoal.fleet.overview import MOST_RUNS
from shoal.web import actions, door, guard, paging, site, throttle, tickets
from shoal.web.deeds import SETTINGS

DOCS = Path(__file__).parents[3] / "docs"
SERVE, API = (DOCS / "how-to" / "serve.md").read_text(), (DOCS / "reference" / "api.md").read_text()
CLI = (DOCS / "reference" / "cli.md").read_text()


def test_every_route_is_listed_and_every_listed_one_is_there(house):
    described = house.web.openapi()["paths"]
    there = {(method.upper(), path) for path, methods in described.items() for method in methods}
    looking = {("GET", path) for path in re.findall(r"^\| `(/api\S*)` \|", API, re.MULTILINE)}
    changing = set(re.findall(r"^\| `(POST|DELETE) (/api\S*)` \|", API, re.MULTILINE))
    beside = {("GET", path) for path in ("/healthz", "/readyz", "/metrics")}
    assert looking | changing | beside == there


def test_every_status_of_the_api_is_listed(house):
    described = house.web.openapi()["paths"]
    told = {
        status
        for methods in described.values()
        for operation in methods.values()
        for status in operation["responses"]
        if status >= "400"
    }
    listed = set(re.findall(r"^\| (\d{3}) \|", API, re.MULTILINE))
    assert told <= listed


def test_the_settings_that_may_be_changed_are_listed():
    line = next(line for line in API.splitlines() if line.startswith("- `settings`"))
    assert set(re.findall(r"`(\w+)`", line)) - {"settings"} == set(SETTINGS)


def test_the_numbers_are_those_of_the_code():
    assert f"at least {site.SHORTEST_TOKEN} characters" in SERVE
    assert f"for {guard.SESSION.total_seconds() / 3600:g} hours" in SERVE
    assert tickets.VALID == 600 and "within ten minutes" in SERVE
    assert f"After {throttle.FROM_ONE} wrong tokens in a minute" in SERVE
    assert f"or {throttle.FROM_ALL} from all" in SERVE and throttle.PERIOD == 60
    assert f"for {actions.KEPT.days} days" in SERVE
    assert f"`limit` is {paging.DEFAULT_LIMIT}, and {paging.MOST:,} at most" in API
    assert f"{paging.DEEPEST:,} rows at most" in API
    assert f"{door.MOST_BYTES >> 20} MB at most, {door.MOST_BYTES_OF_TASKS >> 20} MB" in API
    assert f"the first {MOST_TOLD} that" in API
    assert f"newest {MOST_RUNS} runs" in API


def test_the_options_that_are_shown_are_there():
    command = typer.main.get_command(app_for()).commands["serve"]
    known = {option for param in command.params for option in param.opts}
    for text in (SERVE, CLI.partition("## `shoal serve`")[2].partition("## ")[0]):
        shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", text))
        assert shown and shown <= known
    variables = {param.envvar for param in command.params if getattr(param, "envvar", None)}
    shown = set(re.findall(r"SHOAL_WEB_\w+", CLI)) - {"SHOAL_WEB_TOKEN", "SHOAL_WEB_READER_TOKEN"}
    assert shown | {"SHOAL_QUEUE"} == variables


async def test_the_example_in_python_makes_an_app(tmp_path):
    (example,) = re.findall(r"```python\n(.*?)```", SERVE, re.DOTALL)
    names = {}
    exec(example, names)
    web = await names["web_of"](f"sqlite:///{tmp_path}/queue.db", "operator-0123456789abcdef")
    assert "8000" in str(web.state.site.settings.authorities)
    await web.state.site.app.close()
