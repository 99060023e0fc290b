"""The hooks of a run, in the process that hosts its workers."""

import asyncio
from collections import Counter

import pytest

from shoal import Page, Scraper
from shoal.cli.commands.crawl.run import exit_code, summary_text
from shoal.cli.exits import Exit
from shoal.core.errors import InvalidInput, ShoalError
from tests.integration.engine.hooks.test_hooks import urls

HEAD = """
import time
from pathlib import Path

plain = Scraper("plain", rate=None, robots=False, retries=1)
calls = Path(__file__).parent / "calls.txt"

def write(*words):
    with calls.open("a") as file:
        print(*words, file=file, flush=True)

@plain.step
async def page(page: Page):
    write("page")
    yield {"url": page.url}
"""
CALLED = """
@plain.on_start
def open(resources):
    resources.opened = True

@plain.on_run_start
def prepare(run):
    write("start", run.token, run.stats.pending, run.resources.opened)

@plain.on_run_finish
async def report(run):
    write("finish", run.token, run.state, run.stats.completed, run.stats.items)
"""


def calls_of(bench):
    return (bench.folder / "calls.txt").read_text().splitlines()


async def test_the_hooks_of_a_run_are_called_before_its_first_page_and_after_its_last(bench, origin):
    async with asyncio.timeout(90):
        summary = await bench.run(HEAD + CALLED, urls(origin, 12), workers=2)
    assert calls_of(bench) == ["start 1 12 True", *["page"] * 12, "finish 1 finished 12 12"]
    items = Counter(item["url"] for item in await bench.items(summary.run.id))
    assert set(items.values()) == {1} and len(items) == 12
    hooks = summary.as_json()["hooks"]
    assert {kind: (record["state"], record["token"]) for kind, record in hooks.items()} == {
        "on_run_start": ("done", 1),
        "on_run_finish": ("done", 1),
    }
    assert exit_code(summary) is Exit.OK


async def test_a_run_whose_start_fails_fetches_nothing_and_says_which_hook_and_why(bench, origin):
    failing = """
@plain.on_run_start
def prepare(run):
    raise ValueError("no such table")
"""
    async with asyncio.timeout(60):
        summary = await bench.run(HEAD + failing, urls(origin, 3), workers=2)
    assert not origin.visits
    assert summary.ending.failed and exit_code(summary) is Exit.FAILED
    assert "The hook on_run_start prepare failed: ValueError: no such table" in summary.ending.failures[0]
    async with asyncio.timeout(60):
        again = await bench.run(HEAD, [], run_id=summary.run.id, resume=True)
    assert again.snapshot.stats.completed == 3
    assert not again.snapshot.lost_counts, "no worker was killed"


async def test_a_finish_that_hangs_is_ended_at_its_time_limit_and_recorded(bench, origin):
    hanging = """
@plain.on_run_finish(timeout="1s")
def report(run):
    time.sleep(1000)
"""
    async with asyncio.timeout(60):
        summary = await bench.run(HEAD + hanging, urls(origin, 2), workers=2)
    assert summary.snapshot.stats.completed == 2 and not summary.ending.failures
    assert exit_code(summary) is Exit.FAILED
    text = summary_text(summary, None)
    assert "The hook on_run_finish report failed: it took longer than 1 s" in text
    assert f"Again:    shoal run {summary.job.name} --resume {summary.run.id}" in text


async def test_hooks_of_a_run_are_called_in_a_run_from_python(origin):
    shop, called = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1"), []

    @shop.on_run_start
    def prepare(run):
        called.append(("start", run.state))

    @shop.on_run_finish
    async def report(run):
        called.append((run.state, run.stats.items, run.resources is shop.resources))
        raise ValueError("no mail server")

    @shop.step
    def page(page: Page):
        yield {"url": page.url}

    result = await shop.run(urls(origin, 2), progress=False)
    assert called == [("start", "running"), ("finished", 2, True)]
    assert len(result.items) == 2 and not result.is_complete
    assert "Hook failed: on_run_finish report: ValueError: no mail server" in str(result)


async def test_a_start_that_is_refused_calls_no_hook_for_the_end():
    shop, seen = Scraper("refused"), []

    @shop.step
    async def page(page: Page):
        yield {}

    @shop.on_run_finish
    async def report(run):
        seen.append(run.state)

    with pytest.raises(InvalidInput):
        await shop.run(["notaurl"])
    assert not seen


async def test_a_start_that_fails_is_raised_to_the_program(origin):
    shop = Scraper("shop", rate=None, robots=False, allow_private="127.0.0.1")

    @shop.on_run_start
    def prepare(run):
        raise ValueError("no such table")

    @shop.step
    def page(page: Page):
        yield {"url": page.url}

    with pytest.raises(ShoalError, match="on_run_start prepare failed: ValueError: no such table"):
        await shop.run(urls(origin, 2), progress=False)
    assert not origin.visits
