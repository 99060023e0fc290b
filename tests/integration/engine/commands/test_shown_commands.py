"""Every command that a closing line, a hint or an error shows is typed as it is shown, and does what it says.

One project has runs in every state, on a queue that each command must name. What the commands that look at it
show is collected, and typed. In the end, this is compared with the source: no shown command is left out.
"""

import asyncio
import json
import re
import shlex
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from shoal.cli.exits import Exit
from shoal.core.procfs import pid_scope
from shoal.fleet.dead_workers import new_worker_id
from shoal.queue.open import open_queue
from tests.integration.engine.shown_project import (
    QUEUE,
    Project,
    fill,
    labels_of,
    name_of,
    row_of,
    without_queue,
    without_values,
)
from tests.unit.cli.shown import FILES, commands_in, may_show_command, shape_of, shown_texts
from tests.unit.cli.typed import typed

MAX_ALIKE = 2  # commands that differ only in their values
SCRAPER = """
from dataclasses import dataclass

from shoal import Scraper

books = Scraper("books", rate=None, robots=False, retries=0, start=["{site}/"])


@dataclass
class Book:
    title: str
    price: float


@books.step
async def listing(page):
    for link in page.links("a"):
        yield page.follow(link, step=book)


@books.step(item=Book)
async def book(page):
    if "broken" in page.url:
        raise ValueError("no such shelf")
    yield {{"title": page.text("h1"), "price": page.text("b")}}
"""
OTHER = """
from shoal import Scraper

films = Scraper("films")


@films.step
async def film(page):
    yield {"title": "Film 1"}
"""
PAUSE = """
from shoal import Scraper

pause = Scraper("pause", rate=None, robots=False, retries=0)


@pause.step
async def step(page):
    breakpoint()
    yield {}
"""
NIGHTS = """
from shoal import Scraper

nights = Scraper("nights", rate=None, robots=False)


@nights.step
async def films(page):
    for number in range(20):
        yield {{"title": f"Film {{number}}", "price": {price}}}
"""
PAGES = {
    "/": "".join(f"<a href={name}>.</a>" for name in ["1", "2", "3", "odd", "gone", "broken", "broken2"]),
    **{f"/{name}": f"<h1>Book {name}</h1><b>{name}</b>" for name in ("1", "2", "3")},
    "/odd": "<h1>Odd</h1><b>?</b>",
    "/broken": "<h1>Broken</h1>",
    "/broken2": "<h1>Broken</h1>",
}
# Commands that need more than this project, and the tests that type them.
ELSEWHERE = {
    "demo": "make demo, and tests/integration/engine/commands/test_readme.py",
    "listen": "test_ondemand.py",
    "notify": "tests/integration/engine/schedules/test_schedule_run.py",
    "scrape": "test_ondemand.py",
    "schedule": "tests/integration/engine/schedules/test_schedule_run.py",
    "serve": "test_serve.py",
    "start": "test_start.py",
    "top": "test_inspecting.py",
    "new --from": "tests/integration/templates/test_templates.py",
    "run --tor": "tests/integration/tor",
    "run --tokens": "tests/integration/tokens",
    "run --proxies": "test_proxies.py",
}


# What each of them prints if it does what it says.
EFFECTS = {
    "accept": "Later runs of nights are compared|is judged by what was found in it again",
    "cache": "%",
    "cancel": "Cancelled|has already finished",
    "compare": "1 changed",
    "config": "max_pages",
    "check": "proxies",
    "dead drop": "Dropped 1",
    "dead edit": "Nothing was changed|Edited 1",
    "dead list": "Details: |No dead letters",
    "dead replay": "pending again",
    "dead shell": r"Edit your scraper and type run\(\)",
    "dead show": "ValueError|/",
    "enqueue": "1 task queued",
    "export": r"Wrote \d+ items?",
    "forget": "Cleared",
    "hosts": "127.0.0.1",
    "hosts resume": "Resumed",
    "changes": "Pages of run",
    "fleet": "Done: |Partial: ",
    "items": "Book|Film 1",
    "migrate": "schema version",
    "new": "Created|made|project",
    "partitions": "partition",
    "pause": "Paused|has already finished",
    "plugins": "",
    "proxies": "No proxy has been used",
    "purge": r"Deleted (\d+ )?run|No run (was|would be) deleted",
    "records": "completed",
    "rejects": "price: Expected",
    "resume": "Resumed|has already finished",
    "run": "Done: |Partial: |You left the debugger",
    "runs": "books",
    "scrapers": "",
    "set": "Changed|rate",
    "shell": "",
    "stale": "lease",
    "status": r"Run \S+ of books",
    "tokens": "",
    "watch": "finished",
    "work": "Done: |Partial: |tasks? left|0 tasks",
    "workers": "Queue",
}
LATE = ("resume", "run", "work", "dead replay", "dead drop", "cancel", "forget", "purge")


class _Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        body = PAGES.get(self.path)
        self.send_response(200 if body else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write((body or "").encode())

    def log_message(self, *_):
        pass


@pytest.fixture
def site():
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def project(site, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    monkeypatch.setenv("EDITOR", "true")  # the letter stays as it is
    (tmp_path / "books.py").write_text(SCRAPER.format(site=site))
    (tmp_path / "films.py").write_text(OTHER)
    (tmp_path / "pause.py").write_text(PAUSE)
    (tmp_path / "proxies.txt").write_text(f"{site}\n")
    return Project(site)


@pytest.mark.long
@pytest.mark.timeout(600)  # a hundred commands, on a busy machine
def test_every_shown_command_works_as_it_is_typed(project):
    look_at_an_empty_queue(project)
    whole = make_a_finished_run(project)
    look_at(project, whole)
    make_mistakes(project, whole)
    make_runs_with_tasks_left(project)
    follow_everything(project)
    type_templates(project)
    assert not Path("shoal.db").exists(), "a command without --queue has made another queue"
    missing = sorted(missing_shapes(project.typed))
    assert not missing, "\n".join(missing)


def look_at_an_empty_queue(project):
    project.type("runs")
    project.type("tokens")
    project.type("cache")
    for words in (
        ("status",),
        ("check", "--proxies", "x"),
        ("run", "films.py"),
        ("enqueue", "films.py"),
        ("fleet", "films.py", "--workers", "1"),
        ("run", "nowhere.py", "--url", "http://a.example/"),
        ("run", "films.py", "--url", "http://a.example/", "--playback", "none.warc"),
    ):
        project.type(*words, code=Exit.USAGE)
    project.read(typed("shell"))


def make_a_finished_run(project):
    """Make a run with items, a reject, a missing page and a dead letter; another shows the closing lines."""
    whole = row_of(project.type("run", "books.py", "--json", code=Exit.PARTIAL))
    assert (whole["items"], whole["rejected"], whole["dead"]) == (3, 1, 2)
    closing = project.type("run", "books.py", code=Exit.PARTIAL)
    assert {"Why", "Rejected", "Items", "Results"} <= labels_of(closing)
    project.type("run", "books.py", "--cache", "10m", code=Exit.PARTIAL)
    meet_a_breakpoint(project)
    for price in ("1.5", "1.5", "1.5", "None"):
        Path("nights.py").write_text(NIGHTS.format(price=price))
        night = project.type("run", "nights.py", "--url", f"{project.site}/1")
    assert {"Compare", "If this is right"} <= labels_of(night)
    rule = "expect=items >= 100; no defaults"
    wrong = project.type(
        "run", "nights.py", "--url", f"{project.site}/1", "--set", rule, code=Exit.SUSPICIOUS
    )
    assert "Fields" in labels_of(wrong)
    return whole["run_id"]


def meet_a_breakpoint(project):
    """Run a step that no worker can run, on a queue of its own: what follows would fail again by design."""
    before = set(project.shown)
    words = ("run", "pause.py", "--url", f"{project.site}/1")
    project.type(*words, code=Exit.FAILED, queue="sqlite:///pause.db")
    others = {command for command in project.shown if "pause.db" in command} - before
    project.shown = {command: text for command, text in project.shown.items() if command not in others}
    assert any(command.startswith("shoal run --debug pause.py --url") for command in project.shown)


def look_at(project, run_id):
    for command in ("status", "proxies", "tor", "partitions", "tokens", "items", "rejects", "set", "records"):
        project.type(command, run_id)
    project.type("records", run_id, "--state", "completed", "--step", "nothing")
    project.type("runs")
    project.type("workers", "--all")
    project.type("hosts")
    project.type("hosts", "pause", "a.example")
    project.type("hosts", "slow", "a.example", "--gap", "2s")


def make_mistakes(project, run_id):
    letter = json.loads(project.type("dead", "list", run_id, "--json").splitlines()[-1])["id"]
    project.type("dead", "edit", run_id, letter, "--url", f"{project.site}/broken?1")
    for words in (
        ("status", "nope"),
        ("dead", "show", run_id, "nope"),
        ("run", "films.py", "--resume", run_id),
        ("run", "films.py", "--resume", "newest"),
        ("run", "films.py", "--again", "newest"),
        ("set", run_id, "timeout=9s"),
    ):
        project.type(*words, code=Exit.USAGE)


def make_runs_with_tasks_left(project):
    closing = project.type("run", "books.py", "--set", "max_pages=2", code=Exit.LIMIT_REACHED)
    assert "More" in labels_of(closing)
    ended = re.search(r"--resume (\S+)", closing)[1]
    project.type("status", ended)
    project.type("pause", ended, code=Exit.USAGE)
    stopped = row_of(project.type("enqueue", "books.py", "--json"))
    project.shown.setdefault(stopped["worker_command"], "worker_command")
    for words in (("status",), ("set", "rate=50/s"), ("partitions",), ("pause",), ("resume",), ("pause",)):
        project.type(words[0], stopped["run_id"], *words[1:])
    project.type("enqueue", "books.py")
    cancelled = row_of(project.type("enqueue", "books.py", "--json"))["run_id"]
    project.forget(cancelled)
    project.type("cancel", cancelled)
    for words in (("run", "books.py", "--resume", cancelled), ("set", cancelled, "rate=1/s")):
        project.type(*words, code=Exit.USAGE)
    used = row_of(project.type("enqueue", "books.py", "--json"))["run_id"]
    project.forget(used)
    asyncio.run(send_a_heartbeat(used))
    project.type("workers")
    project.type("purge", used, "--yes", code=Exit.USAGE)
    project.type("purge", "--keep", "1", "--dry-run")


async def send_a_heartbeat(run_id):
    """Let a run have a worker."""
    async with open_queue(QUEUE) as queue:
        await queue.beat(new_worker_id(), run_id=run_id, state="running", info={"pid_scope": pid_scope()})


def follow_everything(project):
    """Type what was shown and what that shows in turn, first what deletes nothing."""
    done, problems, counts = set(), [], Counter()
    while left := [command for command in project.shown if command not in done]:
        # Of two the longer one first: `dead replay RUN ID` before `dead replay RUN`.
        # `min` takes the first shown of equals: ids of runs, which are random, decide nothing.
        command = min(left, key=lambda each: (is_last(each), -len(each.split())))
        done.add(command)
        if name_of(command) in ELSEWHERE or any(way in without_values(command) for way in ELSEWHERE):
            continue
        shape = shape_of(without_queue(command))
        counts[shape] += 1
        if counts[shape] > MAX_ALIKE:
            continue
        filled = fill(project, command)
        try:
            check_effect(filled, project.paste(filled))
            for file in Path().glob("*.jsonl"):  # the same command may be shown again
                file.unlink()
        except (AssertionError, TimeoutError) as error:
            problems.append(f"{command}: {error!r}\n(shown by: {project.shown[command]})")
    assert not problems, "\n\n".join(problems)


def type_templates(project):
    """Type the commands that only a failure this project does not have would show, with real values."""
    run_id = row_of(project.type("run", "books.py", "--json", code=Exit.PARTIAL))["run_id"]
    letter = json.loads(project.type("dead", "list", run_id, "--json").splitlines()[-1])["id"]
    queue = f"--queue {shlex.quote(QUEUE)}"
    for command in (
        f"cache {queue}",
        f"run books.py --again {run_id} {queue}",
        f"changes newest {queue}",
        f"dead shell {run_id} {letter} books.py {queue}",
        f"dead drop {run_id} {letter} {queue}",
        f"dead edit {run_id} --url-replace broken broken3 {queue}",
        f"export {run_id} --to items.jsonl --overwrite {queue}",
        f"forget books.py {queue}",
        f"hosts {queue}",
        f"migrate {queue}",
        f"partitions {run_id} {queue}",
        f"pause {run_id} {queue}",
        f"resume {run_id} {queue}",
        f"run books.py --out books.jsonl {queue}",
        f"proxies {run_id} {queue}",
        f"records {run_id} {queue}",
        f"records {run_id} --state completed {queue}",
        f"shell {project.site}/1 --allow-private 127.0.0.1",
        f"shell {project.site}/1 --css h1 --allow-private 127.0.0.1",
        "new first --template api",
        f"stale {queue}",
        f"status {run_id} {queue}",
        f"tokens {run_id} {queue}",
        f"tokens --forget retired {queue}",
        f"watch {run_id} {queue}",
        f"workers {run_id} {queue}",
        f"cancel {run_id} {queue}",
        f"purge {run_id} {queue}",
        f"purge --older 1s {queue}",
        "config books.py",
        "plugins",
        "scrapers",
    ):
        check_effect(f"shoal {command}", project.paste(f"shoal {command}"))


def check_effect(command, printed):
    name = name_of(command)
    assert name in EFFECTS, f"{command} is not known to this test; it printed:\n{printed}"
    assert re.search(EFFECTS[name], printed), f"{command} printed:\n{printed}"


def is_last(command):
    """Return what is typed after the rest: what others need is deleted last."""
    return LATE.index(name_of(command)) + 1 if name_of(command) in LATE else 0


def missing_shapes(done):
    """Yield the commands of the source that no command of this test is like."""
    for file in filter(may_show_command, FILES):
        for text in shown_texts(file):
            for command in commands_in(text):
                name, options = shape_of(command)
                if name.split()[0] in ELSEWHERE or any(f"{name} {each}" in ELSEWHERE for each in options):
                    continue
                if not any(name == other and options <= given for other, given in done):
                    yield f"{file}: {command}"
