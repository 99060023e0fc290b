"""How runs begin and end: at a limit, refused, cancelled; and what a person is told to type next."""

import asyncio
import json
import os
import shlex

import pytest

from shoal import connect
from shoal.cli.exits import Exit
from shoal.core.errors import RunConflict
from shoal.core.model import SECOND, RunState, Task
from shoal.discover.routing import Routes
from shoal.fleet import left_to_others
from shoal.fleet.run.enqueue import fill
from shoal.fleet.scale.autoscaler import Autoscaler
from shoal.fleet.scale.decide import ScaleBounds
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.open import open_queue
from tests.integration.engine.origin import Answer, Origin
from tests.integration.engine.shell import start, typed

SCRAPER = """
from shoal import Page, Scraper, Task

pages = Scraper("pages", rate=None, robots=False, retries=0, per_host=50)

@pages.step
async def page(page: Page):
    for link in page.links():
        yield page.follow(link)
    yield {"url": page.url}
"""
ENDLESS = """
endless = Scraper("endless", rate=None, robots=False, max_pages={most}, per_host=50)

@endless.step
async def page(page: Page):
    for link in page.links():
        yield page.follow(link)
"""
LOCAL = ("--allow-private", "127.0.0.0/8")


def two_ways_on(path):
    number = int(path.strip("/") or 0)
    return Answer(f"<a href='/{2 * number + 1}'>a</a><a href='/{2 * number + 2}'>b</a>")


@pytest.fixture
def folder(tmp_path, origin):
    (tmp_path / "pages.py").write_text(SCRAPER)
    origin.answer = two_ways_on
    return tmp_path


async def runs(folder, *queue):
    return (await typed("runs", "--json", *queue, folder=folder)).rows


async def test_a_run_that_has_exactly_as_many_pages_as_it_may_have_has_finished(bench, origin):
    done = await bench.run(ENDLESS.format(most=1), [f"{origin.url}/"])
    assert (done.snapshot.state, done.snapshot.run.reason) == ("finished", "")


async def test_the_command_says_where_the_run_was_cut_and_what_to_type_for_more(folder, origin):
    done = await typed("run", "pages.py", f"--url={origin.url}/", "--set", "max_pages=5", folder=folder)
    assert done.code == Exit.LIMIT_REACHED, done.err
    assert "Partial: 5 pages, 5 items" in done.err and "Done" not in done.err
    assert "Stopped at max_pages=5 with 6 tasks left." in done.err
    (row,) = await runs(folder)
    assert (row["state"], row["reason"], row["remaining"]) == ("partial", "max_pages=5 reached", 6)
    shown = await typed("status", folder=folder)
    assert "partial, max_pages=5 reached" in shown.out
    newest = await typed("run", "pages.py", "--resume", "newest", *LOCAL, folder=folder)
    assert newest.code == Exit.USAGE and "no run of 'pages' that was stopped" in newest.err
    again = await typed(
        "run", "pages.py", "--resume", row["run_id"], "--set", "max_pages=5", *LOCAL, folder=folder
    )
    assert again.code == Exit.USAGE and "has used its budget: 5 pages done" in again.err
    assert "--set max_pages=10" in again.err
    more = ("enqueue", "pages.py", "--url", f"{origin.url}/more", "--run", row["run_id"], *LOCAL)
    refused = await typed(*more, "--set", "max_pages=5", folder=folder)
    assert refused.code == Exit.USAGE and "run the same command with --set max_pages=10" in refused.err
    assert (await runs(folder))[0]["remaining"] == 6, "nothing has entered"
    command = done.err.partition("More:     shoal ")[2].splitlines()[0]
    more = await typed(*shlex.split(command), "--json", folder=folder)
    assert more.code == Exit.LIMIT_REACHED, more.err
    assert (more.row["completed"], more.row["state"]) == (10, "partial")
    assert more.row["reason"] == "max_pages=10 reached"


@pytest.mark.long
async def test_a_coordinator_makes_a_new_run_after_one_that_has_used_its_pages(folder, origin):
    (folder / "shoal.toml").write_text(
        'queue = "sqlite:///queue.db"\n[scrapers.pages]\nmodule = "pages.py:pages"\nmax_pages = 4\n'
        f'seeds = {{ url = ["{origin.url}/"] }}\n'
    )
    worker = await start("start", "--role", "worker", "--json", folder=folder)
    try:
        first = await typed("start", "--role", "coordinator", "--json", folder=folder)
        second = await typed("start", "--role", "coordinator", "--json", folder=folder)
    finally:
        worker.terminate()
        await worker.communicate()
    assert (first.code, second.code) == (Exit.OK, Exit.OK), first.err + second.err
    assert (first.row["completed"], second.row["completed"]) == (4, 4)
    assert (first.row["state"], first.row["reason"]) == ("partial", "max_pages=4 reached")
    assert first.row["run_id"] != second.row["run_id"]


async def test_the_scaler_wants_nobody_for_a_run_that_has_ended(bench):
    class Two:
        async def count(self):
            return 2

        async def set(self, count):
            self.wanted = count

    async with open_queue(bench.queue_url) as queue:
        run = await queue.start_run("pages")
        await queue.enqueue(run.id, [Task(url=f"http://a.example/{number}") for number in range(9)])
        await queue.finish(run.id, "max_pages=1 reached")
        driver = Two()
        found = await Autoscaler(
            queue, run.id, driver, ScaleBounds(most=5, least=1, cooldown=60 * SECOND)
        ).step()
        assert (found.target, driver.wanted) == (0, 0)
        assert "the run has ended: max_pages=1 reached" in found.why


@pytest.mark.parametrize(
    "words",
    [("--log-dir", "/dev/null"), ("--metrics", "nonsense"), ("--url=example.com",)],
    ids=["no folder for logs", "no address for metrics", "no URL"],
)
async def test_a_start_that_is_refused_leaves_no_run_behind(folder, origin, words):
    urls = () if words == ("--url=example.com",) else (f"--url={origin.url}/",)
    done = await typed("run", "pages.py", *urls, *words, folder=folder)
    assert done.code == Exit.USAGE, done.err
    assert await runs(folder) == []


async def test_a_run_that_was_there_before_stays_when_a_start_is_refused(folder, origin):
    await typed("enqueue", "pages.py", f"--url={origin.url}/", "--run", "mine", folder=folder)
    done = await typed("run", "pages.py", "--run", "mine", "--log-dir", "/dev/null", *LOCAL, folder=folder)
    assert done.code == Exit.USAGE
    assert [row["run_id"] for row in await runs(folder)] == ["mine"]


async def test_a_fleet_whose_table_lacks_a_partition_takes_its_run_back(folder, origin):
    (folder / "urls.csv").write_text(f"url,state\n{origin.url}/1,CA\n{origin.url}/2,NV\n")
    (folder / "table.toml").write_text('1 = ["CA"]\n')
    words = ("fleet", "pages.py", "--urls-file", "urls.csv", "--partition", "state", *LOCAL)
    done = await typed(*words, "--partition-table", "table.toml", folder=folder)
    assert done.code == Exit.FAILED and "Fix these first: partitions" in done.err
    assert await runs(folder) == []
    await typed("enqueue", *words[1:6], "--run", "mine", folder=folder)
    kept = await typed(
        "fleet", "pages.py", "--resume", "mine", "--partition-table", "table.toml", *LOCAL, folder=folder
    )
    assert kept.code == Exit.FAILED
    assert "shoal fleet pages.py --resume mine" in kept.err and "shoal purge mine" in kept.err


async def test_the_command_to_go_on_is_the_one_that_was_stopped(folder, origin):
    origin.answer = lambda path: Answer()
    (folder / "urls.csv").write_text(
        "url,state\n" + "".join(f"{origin.url}/{number},CA\n" for number in range(300))
    )
    options = {
        "--workers": "2", "--stagger": "0.1s", "--log-dir": "my logs", "--out": "items.jsonl",
        "--partitions": "CA", "--concurrency": "3", "--set": "rate=20/s", "--for": "1s",
    }  # fmt: skip
    typed_options = [word for pair in options.items() for word in pair]
    done = await typed(
        "fleet", "pages.py", "--urls-file", "urls.csv", "--partition", "state", "--yes",
        *LOCAL, *LOCAL, *typed_options, folder=folder,
    )  # fmt: skip
    assert done.code == Exit.TIMED_OUT, done.err
    (row,) = await runs(folder)
    words = shlex.split(done.err.partition("Resume:   ")[2].splitlines()[0])
    assert words[:5] == ["shoal", "fleet", "pages.py", "--resume", row["run_id"]]
    rest = dict(zip(words[5::2], words[6::2], strict=True))
    assert rest == {option: value for option, value in options.items() if option != "--set"}
    again = await typed(*words[1:], folder=folder)
    assert "Settings of the run: rate=20/s, allow_private=127.0.0.0/8." in again.err


STAGES = """
from shoal import Page, Scraper, Task

stages = Scraper("stages", rate=None, robots=False, retries=0)

@stages.step
async def first(page: Page):
    yield Task(url="{other}/profile", step="second", key="k1")
    yield page.follow("{other}/link")

@stages.step
async def second(page: Page):
    yield {{"url": page.url}}
"""


@pytest.mark.long
async def test_the_next_stage_may_be_on_another_host_and_links_that_are_dropped_are_counted(bench, origin):
    async with Origin(address="127.0.0.2") as other:
        done = await bench.run(STAGES.format(other=other.url), [f"{origin.url}/"], run_id="r")
        assert done.snapshot.stats.completed == 2
        assert dict(other.visits) == {"/profile": 1}
        assert done.as_json()["not_followed"] == {
            "out of scope": {
                "count": 1,
                "example": f"{other.url}/link",
                "option": "--set scope=site or --set scope=any",
            }
        }
        # Whoever looks sees it, not only the launcher that did it.
        status = await typed("status", "r", "--json", "--queue", bench.queue_url, folder=bench.folder)
        assert status.row["not_followed"] == done.as_json()["not_followed"]
        shown = await typed("status", "r", "--queue", bench.queue_url, folder=bench.folder)
        assert "Links not followed: 1 out of scope, for example" in shown.out
        purged = await typed("purge", "r", "--yes", "--queue", bench.queue_url, folder=bench.folder)
        assert purged.code == Exit.OK
    async with open_queue(bench.queue_url) as queue:
        assert await queue.notes("left out r") == {}


async def test_a_new_run_names_the_one_that_was_left_unfinished(folder, origin):
    origin.answer = lambda path: Answer()
    words = ("pages.py", "--url", origin.url, *LOCAL)
    assert "This is a new run" not in (await typed("run", *words, "--run", "first", folder=folder)).err
    await typed("enqueue", *words, "--run", "left", folder=folder)
    done = await typed("run", *words, folder=folder)
    named = "Run left of pages has 1 task left, and no worker. This is a new run; to continue that one, run: "
    (again,) = [line.removeprefix(named) for line in done.err.splitlines() if line.startswith(named)]
    resumed = await typed(*shlex.split(again)[1:], folder=folder)
    assert resumed.code == Exit.OK and "This is a new run" not in resumed.err
    assert "This is a new run" not in (await typed("run", *words, folder=folder)).err


async def test_a_run_ends_and_says_so_when_only_tasks_of_other_steps_are_left(folder, origin, monkeypatch):
    monkeypatch.setattr(left_to_others, "UNSERVED_SECONDS", 0.0)
    (folder / "pages.py").write_text(f"{SCRAPER}\n@pages.step\ndef other(page):\n    yield {{}}\n")
    origin.answer = lambda path: Answer()
    words = ("run", "pages.py", "--url", origin.url, "--steps", "other", *LOCAL)
    done = await typed(*words, "--run", "s", "--step", "other", folder=folder)
    assert done.code == Exit.OK, done.err
    assert "With --steps other, tasks of page wait for other workers. To start one, run: " in done.err
    assert "shoal work pages.py --run s --steps page" in done.err
    done = await typed(*words, "--run", "r", "--json", folder=folder)
    assert done.code == Exit.PARTIAL, done.err
    assert done.row["left_to_others"] == {"steps": {"page": 1}} and done.row["state"] == "waiting"
    messages = [json.loads(line).get("message", "") for line in done.err.splitlines()]
    assert any(
        one.startswith("Left: 1 task of page, which --steps other does not run. No worker")
        for one in messages
    )
    done = await typed("run", "pages.py", "--resume", "r", "--steps", "other", folder=folder)
    assert "Left: 1 task of page, which --steps other does not run." in done.err
    (again,) = [
        line.removeprefix("Resume: ").strip() for line in done.err.splitlines() if line.startswith("Resume: ")
    ]
    resumed = await typed(*shlex.split(again)[1:], folder=folder)
    assert resumed.code == Exit.OK, resumed.err


async def test_with_json_every_line_on_stderr_is_json_also_of_steps_and_libraries(folder, origin):
    code = """
    print("printed")
    logging.getLogger("mine").warning("careful")
    try:
        1 / 0
    except ZeroDivisionError:
        logging.getLogger("mine").exception("broken")
"""
    step = "async def page(page: Page):"
    (folder / "pages.py").write_text("import logging\n" + SCRAPER.replace(step, step + code))
    origin.answer = lambda path: Answer()
    done = await typed("run", "pages.py", "--url", origin.url, "--json", *LOCAL, folder=folder)
    assert done.code == Exit.OK, done.err
    lines = [json.loads(line) for line in done.err.splitlines()]
    assert {"output": "printed"} in lines
    careful, broken = [line for line in lines if "level" in line]
    assert (careful["message"], careful["level"], careful["event"]) == ("careful", "warning", "log")
    assert broken["level"] == "error" and broken["message"].startswith("broken\nTraceback")
    assert careful["worker"] == broken["worker"]
    plain = await typed("run", "pages.py", "--url", origin.url, *LOCAL, folder=folder)
    assert {"printed", "careful", "broken"} <= set(plain.err.splitlines())


@pytest.mark.parametrize("words", [("run", "--url", "http://a.example"), ("work", "--run", "newest")])
async def test_a_step_that_the_scraper_does_not_have_is_refused_with_those_it_has(folder, words):
    command, *more = words
    done = await typed(command, "pages.py", *more, "--steps", "nope", folder=folder)
    assert done.code == Exit.USAGE
    assert "--steps names 'nope', which 'pages' does not have. Its steps: page" in done.err


@pytest.mark.parametrize("words", [("enqueue", "--from-run", "nowhere"), ("run", "--urls-file", "none.txt")])
async def test_a_source_that_cannot_be_read_leaves_no_run_behind(folder, words):
    command, *source = words
    failed = await typed(command, "pages.py", *source, *LOCAL, folder=folder)
    assert failed.code == Exit.USAGE, failed.err
    assert await runs(folder) == []


async def test_a_run_is_made_when_its_first_source_has_been_read(folder, origin):
    os.mkfifo(folder / "urls.txt")
    filling = await start("enqueue", "pages.py", "--urls-file", "urls.txt", "--json", *LOCAL, folder=folder)
    # To open it takes as long as nobody reads it.
    async with asyncio.timeout(30):
        writer = await asyncio.to_thread(open, folder / "urls.txt", "w")
    with writer:
        assert await runs(folder) == []
        writer.write(f"{origin.url}/1\n")
    out, err = await asyncio.wait_for(filling.communicate(), 30)
    assert filling.returncode == Exit.OK, err
    assert [row["run_id"] for row in await runs(folder)] == [json.loads(out)["run_id"]]


async def test_tasks_for_a_run_that_ended_at_its_limit_let_it_go_on_or_are_refused(bench, origin):
    origin.answer = two_ways_on
    await bench.run(ENDLESS.format(most=3), [f"{origin.url}/"], run_id="r")
    name = f"{bench.folder}/scraper.py:endless"
    async with connect(bench.queue_url, folder=bench.folder) as app:
        run = await app.run("r")
        before = (await run.stats()).tasks
        more = [f"{origin.url}/more"]
        job = app.job(name)
        with pytest.raises(RunConflict, match="--set max_pages=6"):
            await fill(app.queue, job, run.info, Routes(), Seeds(urls=more))
        assert (await run.stats()).tasks == before
        job = app.job(name, settings={"max_pages": 9})
        assert (await fill(app.queue, job, run.info, Routes(), Seeds(urls=more))).added == 1
        assert (await app.queue.run("r")).state is RunState.RUNNING


async def test_a_run_is_not_resumed_by_code_that_lacks_the_step_of_its_tasks(folder, origin):
    origin.answer = lambda path: Answer()
    stopped = ("--set", "max_pages=1", "--run", "r", *LOCAL)
    await typed("run", "pages.py", f"--url={origin.url}/1", f"--url={origin.url}/2", *stopped, folder=folder)
    code = (folder / "pages.py").read_text()
    (folder / "pages.py").write_text(code.replace("async def page(", "async def renamed("))
    again = ("run", "pages.py", "--resume", "r", "--set", "max_pages=9", *LOCAL)
    refused = await typed(*again, folder=folder)
    assert refused.code == Exit.USAGE
    assert "1 task left for step 'page', which 'pages' does not have" in refused.err
    assert (
        "@pages.step(name='page')" in refused.err and "add a step 'page' that yields nothing" in refused.err
    )
    (row,) = await runs(folder)
    assert (row["remaining"], row["dead"]) == (1, 0)
    (folder / "pages.py").write_text(code)
    done = await typed(*again, folder=folder)
    assert done.code == Exit.OK, done.err


async def test_a_finished_run_is_not_paused_and_watching_it_ends(folder, origin):
    origin.answer = lambda path: Answer()
    done = await typed("run", "pages.py", f"--url={origin.url}/", "--run", "r", *LOCAL, folder=folder)
    assert done.code == Exit.OK, done.err
    paused = await typed("pause", "r", folder=folder)
    assert paused.code == Exit.OK and "Run r has already finished; nothing was paused." in paused.err
    cancelled = await typed("cancel", "r", folder=folder)
    assert "has already finished" in cancelled.err
    assert (await typed("status", "r", "--json", folder=folder)).row["state"] == "finished"
    async with asyncio.timeout(30):
        assert (await typed("watch", "r", folder=folder)).code == Exit.OK


BROKEN = """
from shoal import Page, Scraper

shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.0/8", stop_when=40)

@shop.step
async def listing(page: Page):
    for number in range(600):
        yield page.follow(f"/book/{number}", step=book)

@shop.step
async def book(page: Page):
    yield {"title": page.css("h1")[0].text()}
"""


async def test_a_run_whose_pages_all_fail_alike_stops_with_its_tasks_and_says_how_to_go_on(tmp_path):
    (tmp_path / "shop.py").write_text(BROKEN)
    async with Origin(lambda path: Answer("<p>a page without a title")) as site:
        options = ["--workers", "2", f"--url={site.url}/"]
        done = await typed("run", "shop.py", *options, folder=tmp_path)
        visits = site.visits.total()
        assert done.code == Exit.PARTIAL
        assert visits < 2 * 300
        assert "Stopped at stop_when=40: nearly all of the last tasks of step 'book'" in done.err
        assert "IndexError" in done.err and "--set stop_when=off" in done.err
        (more,) = (line for line in done.err.splitlines() if line.startswith("More:"))
        assert "max_pages" not in more
        (run,) = (await typed("runs", "--json", folder=tmp_path)).rows
        status = await typed("status", run["run_id"], "--json", folder=tmp_path)
        assert status.row["state"] == "partial" and status.row["reason"].startswith("stop_when=40")
        assert status.row["remaining"] > 0
