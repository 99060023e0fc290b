"""Every page of the control room shows commands that select its queue and that the parser takes."""

import re
import shlex
from html import unescape

import pytest

from shoal.core.model import Task
from shoal.worker.run_settings import StoredSettings, write_settings
from tests.unit.docs.commands import parse
from tests.unit.web.tokens import OPERATOR

COPIED = re.compile(r'data-copy="(shoal [^"]*)"')
PAGES = (
    *("/", "/runs", "/workers", "/hosts", "/dead", "/runs/{run}", "/runs/{run}/items", "/runs/{run}/rejects"),
    *("/runs/{run}/dead", "/runs/{run}/dead/{letter}", "/runs/{run}/tasks", "/runs/{run}/proxies"),
    "/runs/{run}/tor",
    *("/schedules", "/scrapers/books", "/scrapers/books/forget", "/purge?days=1", "/runs/{run}/enqueue"),
    "/runs/{run}/replay?id={letter}",
    *("/runs/{run}/cancel", "/runs/{run}/drop?id={letter}", "/runs/{run}/edit?old=shop&new=store"),
)


@pytest.fixture
async def operator(dashboard):
    async with dashboard.client(OPERATOR) as client:
        yield client


@pytest.fixture
async def run(dashboard):
    return await dashboard.make_run()


@pytest.mark.parametrize("page", PAGES)
async def test_the_commands_of_a_page_select_its_queue(dashboard, operator, run, page):
    letter = await anext(aiter(dashboard.queue.dead(run.id)))
    shown = (await operator.get(page.format(run=run.id, letter=letter.id))).text
    commands = [shlex.split(unescape(found)) for found in COPIED.findall(shown)]
    assert commands, page
    for words in commands:
        if "…" not in words and "--help" not in words:
            parse(words)
        assert words[words.index("--queue") + 1] == dashboard.app.queue_url, words


async def test_the_page_of_rejects_shows_the_command_that_lists_them(operator, run):
    shown = (await operator.get(f"/runs/{run.id}/rejects")).text
    assert f"shoal rejects {run.id} --queue" in unescape(shown)


async def test_a_run_of_a_scraper_outside_the_project_names_it_as_it_was_typed(dashboard, operator):
    made = await dashboard.queue.start_run("elsewhere", run_id="outside")
    await dashboard.queue.enqueue(made.id, [Task(url="https://a.example/")])
    shown = (await operator.get("/runs/outside")).text
    assert "shoal work" not in " ".join(COPIED.findall(shown))  # nothing that could be typed is known
    assert "with the file of the scraper, on any machine that has it" in shown
    await write_settings(dashboard.queue, made.id, StoredSettings(scraper="scrapers/my shop.py"))
    for page in ("/runs/outside", "/runs/outside/start-workers"):
        shown = (await operator.get(page)).text
        commands = [shlex.split(unescape(found)) for found in COPIED.findall(shown)]
        (words,) = {tuple(found) for found in commands if found[1] == "work"}
        assert words[:5] == ("shoal", "work", "scrapers/my shop.py", "--run", "outside")
        assert not [found for found in commands if "FILE" in found]
