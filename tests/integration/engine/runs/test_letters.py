"""Dead letters are edited, replayed and fetched; old runs go when a run of their scraper ends."""

import apsw
import pytest

from shoal.cli.exits import Exit
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, keep="1d")

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""


@pytest.fixture
def site(origin):
    origin.answer = lambda path: Answer(status=404 if "old" in path else 200)
    return origin


async def test_edited_letters_are_fetched_at_their_new_address_and_old_runs_go(tmp_path, site):
    (tmp_path / "pages.py").write_text(SCRAPER)
    urls = [f"--url={site.url}/old/{number}" for number in range(3)]
    first = await typed("run", "pages.py", "--run", "first", "--json", *urls, folder=tmp_path)
    assert (first.code, first.row["dead"]) == (Exit.FAILED, 3)
    change = ("--url-replace", "/old/", "/new/", "--header", "x-key: 1", "--yes", "--json")
    edited = await typed("dead", "edit", "first", *change, folder=tmp_path)
    assert (edited.code, edited.row["edited"]) == (Exit.OK, 3)
    assert (await typed("dead", "replay", "first", "--json", folder=tmp_path)).row["replayed"] == 3
    host = site.url.removeprefix("http://")
    again = await typed(
        *("run", "pages.py", "--resume", "first", "--allow-private", host, "--out", "a.jsonl"),
        folder=tmp_path,
    )
    assert again.code == Exit.OK, again.err
    assert {path: count for path, count in site.visits.items() if "new" in path} == {
        f"/new/{number}": 1 for number in range(3)
    }
    # As if nobody had worked on it for days.
    apsw.Connection(str(tmp_path / "shoal.db")).execute(
        "UPDATE run SET started_at = started_at - 172800000000;"
        "UPDATE worker SET beat_at = beat_at - 172800000000"
    )
    last = await typed("run", "pages.py", "--run", "last", f"--url={site.url}/x", folder=tmp_path)
    assert "Deleted 1 run with 3 tasks, 3 items, 0 dead letters. The setting keep says so." in last.err
    listed = await typed("runs", "--json", folder=tmp_path)
    assert [row["run_id"] for row in listed.rows] == ["last"]
