"""Hooks in a run with real workers: they change requests, responses and outcomes, and fail by name."""

import asyncio
from collections import Counter
from itertools import pairwise

import pytest

from tests.cases import long
from tests.integration.engine.origin import Answer, Origin

HEAD = """
from dataclasses import replace
import asyncio
import time

plain = Scraper("plain", rate=None, robots=False, retries=1, lease="3s")

@plain.step
async def page(page: Page):
    yield {"url": page.url, "text": page.body.decode(), "used": getattr(page.resources, "used", None)}
"""


def urls(origin, count):
    return [f"{origin.url}/{number}" for number in range(count)]


async def run(bench, origin, hooks, count=1, **options):
    async with asyncio.timeout(60):
        summary = await bench.run(HEAD + hooks, urls(origin, count), **options)
    return await bench.items(summary.run.id), await bench.dead(summary.run.id), summary


async def test_a_request_is_changed_answered_and_its_response_replaced(bench, origin):
    hooks = """
@plain.on_request
async def sign(request):
    request.headers["x-signature"] = request.task.url.rpartition("/")[2]
    request.set_param("key", "k1")

@plain.on_request
def from_elsewhere(request):
    if "/1?" in request.url:
        return request.answer("from elsewhere")

@plain.on_response
def upper(response, task):
    if task.url.endswith("/2"):
        return replace(response, body=response.body.upper())

@plain.on_start
async def connect(resources):
    resources.used = 7
"""
    seen = {}

    def answer(path):
        seen[path] = True
        return Answer("plain text")

    origin.answer = answer
    items, dead, _ = await run(bench, origin, hooks, 3)
    texts = {item["url"].partition("?")[0].rpartition("/")[2]: item["text"] for item in items}
    assert texts == {"0": "plain text", "1": "from elsewhere", "2": "PLAIN TEXT"} and not dead
    assert set(seen) == {"/0?key=k1", "/2?key=k1"}
    assert {item["used"] for item in items} == {7}


async def test_a_hook_decides_about_errors(bench, origin):
    """Tried again without being charged, then again in place of being buried, then buried."""
    hooks = """
count = 0

@plain.on_error
async def decide(failed):
    global count
    if failed.response.status == 404:
        count += 1
        return failed.release("10ms") if count == 1 else failed.retry("10ms") if count == 2 else None
    return failed.bury()
"""
    visits = Counter()

    def answer(path):
        visits[path] += 1
        return Answer("", status=404 if path == "/0" else 500)

    origin.answer = answer
    _, dead, _ = await run(bench, origin, hooks, 2)
    assert {letter.task.url.rpartition("/")[2]: letter.attempts for letter in dead} == {"0": 2, "1": 1}


@pytest.mark.parametrize(
    ("hook", "error"),
    [
        ("on_request\ndef bad(request): 1 / 0", "ZeroDivisionError"),
        *long(
            ("on_request\ndef bad(request): request.url = 'http://other.test/'", "changed the host"),
            ("on_response\ndef bad(response): raise SystemExit", "on_response bad raised SystemExit"),
            ("on_response\nasync def bad(response): await asyncio.sleep(100)", "on_response bad timed out"),
        ),
    ],
)
async def test_a_hook_that_fails_is_named(bench, origin, hook, error):
    items, dead, _ = await run(bench, origin, f"\n@plain.{hook}\n")
    assert not items and len(dead) == 1 and error in dead[0].error


@pytest.mark.long
async def test_a_hook_that_hangs_the_loop_costs_its_own_task_only(bench, origin):
    hook = """
@plain.on_request
def bad(request):
    if request.url.endswith("/3"):
        time.sleep(1000)
"""
    items, dead, _ = await run(bench, origin, hook, 6)
    assert len(items) == 5 and [letter.task.url[-2:] for letter in dead] == ["/3"]


async def test_a_worker_whose_start_fails_says_which_hook_and_why(bench, origin):
    hook = "\n@plain.on_start\ndef connect(resources): raise OSError('no database')\n"
    items, dead, summary = await run(bench, origin, hook)
    assert "The hook on_start connect failed: OSError: no database" in summary.ending.failures[0]
    assert not items and not dead and summary.snapshot.stats.remaining == 1


async def test_a_start_that_is_cancelled_by_the_hook_itself_is_named(bench, origin):
    hook = "\n@plain.on_start\nasync def connect(resources): asyncio.current_task().cancel()\n"
    *_, summary = await run(bench, origin, hook)
    assert "The hook on_start connect failed: CancelledError" in summary.ending.failures[0]


async def test_code_that_cancels_its_own_task_is_charged_and_not_called_for_ever(bench, origin):
    hook = """
@plain.on_request
async def bad(_):
    asyncio.current_task().cancel()
    await asyncio.sleep(60)
"""
    _, (letter,), _ = await run(bench, origin, hook)
    assert "raised CancelledError" in letter.error


async def test_resources_are_closed_once_per_worker(bench, origin, tmp_path):
    hooks = f"""
@plain.on_start
def connect(resources):
    resources.used = 1

@plain.on_finish
async def disconnect(resources):
    with open({str(tmp_path / "closed")!r}, "a") as file:
        file.write("closed\\n")
"""
    items, dead, _ = await run(bench, origin, hooks, 10, workers=2)
    assert len(items) == 10 and not dead
    assert (tmp_path / "closed").read_text().splitlines() == ["closed"] * 2


async def test_a_slow_hook_is_not_called_again_and_again(bench, origin):
    """Its request is late for its turn at the host, and is sent all the same, unless one was just sent."""
    hook = """
count = 0

@plain.on_request
async def slow(request):
    global count
    count += 1
    time.sleep(0.4)
    request.headers["x-count"] = str(count)

@plain.on_finish
def write(resources):
    assert 4 <= count <= 8, count
"""
    code = (HEAD + hook).replace("rate=None", 'rate="5/s"')
    async with asyncio.timeout(60):
        summary = await bench.run(code, urls(origin, 4))
    assert len(await bench.items(summary.run.id)) == 4
    assert not [
        line for line in bench.witness.said_lines + bench.witness.printed_lines if "on_finish" in line
    ]
    moments = sorted(moment for moment, _ in origin.moments)
    assert min(later - sooner for sooner, later in pairwise(moments)) > 0.1


FALLBACK = """
plain = Scraper("plain", rate=None, robots=False, retries=1, retry={"delay": "10ms"}, missing="dead")

@plain.step
async def page(page: Page):
    yield {"lost": "with the page that fails"}
    page.css("h1")[0]

@page.on_error
def fall_back(failed):
    if failed.task.url.endswith("/0"):
        return
    if failed.task.url.endswith("/1"):
        raise KeyError("in the fallback")
    yield {"url": failed.task.url, "attempt": failed.attempt, "error": type(failed.error).__name__}
    yield Task(url=failed.task.url, step="archived", key=f"archived {failed.task.url}")

@plain.step
async def archived(page: Page):
    yield {"archived": page.url}
"""


async def test_what_a_step_yields_for_a_task_that_has_failed_for_good_replaces_its_dead_letter(bench):
    async with Origin(lambda path: Answer("<p>x", status=500 if path == "/3" else 200)) as site:
        summary = await bench.run(FALLBACK, urls(site, 4))
        items, dead = await bench.items(summary.run.id), await bench.dead(summary.run.id)
    assert sorted(items, key=str) == sorted(
        [
            {"url": f"{site.url}/2", "attempt": 2, "error": "IndexError"},
            {"url": f"{site.url}/3", "attempt": 2, "error": "HttpStatus"},
            {"archived": f"{site.url}/2"},
        ],
        key=str,
    )
    by_path = {letter.task.url.removeprefix(site.url): letter for letter in dead}
    assert set(by_path) == {"/0", "/1", "/3"}
    assert by_path["/3"].task.step == "archived"
    assert by_path["/0"].error.startswith("IndexError")
    assert "KeyError: 'in the fallback'" in by_path["/1"].error
    assert "on_error of step 'page' was called for IndexError" in by_path["/1"].error
    skipped = summary.snapshot.not_followed
    assert {why: one.count for why, one in skipped.items()} == {
        "skipped: IndexError, with on_error": 1,
        "skipped: HttpStatus, with on_error": 1,
    }


BROKEN_FALLBACK = """
import asyncio, os, signal
plain = Scraper("plain", rate=None, robots=False, retries=0)

@plain.step
async def page(page: Page):
    if page.url.endswith("/killed"):
        os.kill(os.getpid(), signal.SIGKILL)
    page.css("h1")[0]

@page.on_error
async def fall_back(failed):
    if failed.task.url.endswith("/cancels"):
        raise asyncio.CancelledError
    if failed.task.url.endswith("/exits"):
        raise SystemExit(3)
    if failed.task.url.endswith("/kills"):
        os.kill(os.getpid(), signal.SIGKILL)
    yield {"url": failed.task.url}
"""


async def test_a_task_whose_on_error_or_worker_ends_is_a_dead_letter_and_not_tried_again(bench, origin):
    places = ("cancels", "exits", "kills", "killed", "good")
    async with asyncio.timeout(60):
        summary = await bench.run(BROKEN_FALLBACK, [f"{origin.url}/{name}" for name in places])
    letters = {letter.task.url.rpartition("/")[2]: letter for letter in await bench.dead(summary.run.id)}
    assert await bench.items(summary.run.id) == [{"url": f"{origin.url}/good"}]
    assert {name: letter.error.partition(":")[0] for name, letter in letters.items()} == {
        "cancels": "StepEnded",
        "exits": "StepEnded",
        "kills": "WorkerDied",
        "killed": "WorkerDied",
    }
    assert "on_error of step 'page' was called for IndexError" in letters["cancels"].error
