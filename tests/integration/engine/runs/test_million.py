"""Very many URLs from the command line: exact counts in little memory, also after a death.

The figures of a full size come with SHOAL_MILLION=1000000 and -s.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from shoal.queue.open import open_queue
from tests.integration.discover.making import HOME, MIB, gzip_bomb, index, sitemap, write_urls
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import start

URLS = int(os.environ.get("SHOAL_MILLION", "30000"))
PER_FILE = 5_000
MOST_MEMORY = 200 * MIB
PATIENCE = 600
RUN = "million"

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, allow_private="127.0.0.0/8")

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    return tmp_path


@pytest.fixture(params=["sqlite", "postgres"])
def queue_url(request, tmp_path):
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/queue.db"
    return request.getfixturevalue("postgres_url")


async def enqueue(folder, queue_url, *words):
    return await start(
        "enqueue", "pages.py", "--json", "--run", RUN, "--queue", queue_url, *words, folder=folder
    )


async def measured(process):
    """Return what a command printed, how it ended, and the most memory that it held."""
    began, watching = time.monotonic(), asyncio.create_task(_peak(process.pid))
    out, err = await asyncio.wait_for(process.communicate(), PATIENCE)
    peak = await watching
    row = json.loads(out) if out else {}
    seconds = time.monotonic() - began
    sys.stdout.write(f"\n{row or err.decode()} in {seconds:.1f} s, peak {peak / MIB:.0f} MB\n")
    return row, err.decode(), peak


async def _peak(pid):
    peak = 0
    with contextlib.suppress(OSError, StopIteration):
        while True:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            peak = 1024 * int(next(line for line in lines if line.startswith("VmHWM")).split()[1])
            await asyncio.sleep(0.05)
    return peak


async def tasks_in(queue):
    with contextlib.suppress(Exception):
        return (await queue.stats(RUN)).tasks
    return 0


async def settled(queue):
    """Return how many tasks there are once what the dead command had sent is over, too."""
    before, now = -1, await tasks_in(queue)
    while now != before:
        await asyncio.sleep(0.5)
        before, now = now, await tasks_in(queue)
    return now


@pytest.mark.parametrize("queue_url", ["sqlite"], indirect=True)
async def test_a_url_file_enters_exactly_and_in_little_memory(folder, queue_url):
    good, bad = write_urls(folder / "urls.txt", URLS)
    process = await enqueue(folder, queue_url, "--urls-file", "urls.txt", "--rejects", "bad.jsonl")
    row, _, peak = await measured(process)
    assert (row["enqueued"], row["duplicate"], row["invalid"]) == (good, URLS - good - len(bad), len(bad))
    assert peak < MOST_MEMORY
    refused = [json.loads(line)["where"] for line in (folder / "bad.jsonl").read_text().splitlines()]
    assert refused == [f"urls.txt:{number}" for number in bad]


@pytest.mark.long
async def test_a_command_that_dies_half_way_and_is_typed_again_leaves_the_same_counts(folder, queue_url):
    good, bad = write_urls(folder / "urls.txt", URLS)
    words = ("--urls-file", "urls.txt", "--rejects", "bad.jsonl")
    async with open_queue(queue_url) as queue:
        process = await enqueue(folder, queue_url, *words)
        async with asyncio.timeout(PATIENCE):
            while await tasks_in(queue) < good // 4:
                await asyncio.sleep(0.01)
        os.killpg(process.pid, signal.SIGKILL)
        await process.communicate()
        early = await settled(queue)
        assert 0 < early < good
        row, _, _ = await measured(await enqueue(folder, queue_url, *words))
        assert await tasks_in(queue) == good
    assert row["enqueued"] + early == good
    assert (row["duplicate"], row["invalid"]) == (URLS - len(bad) - row["enqueued"], len(bad))
    assert len((folder / "bad.jsonl").read_text().splitlines()) == len(bad)


@pytest.mark.long
@pytest.mark.parametrize("queue_url", ["postgres"], indirect=True)
async def test_a_tree_of_sitemaps_enters_exactly_and_in_little_memory(folder, queue_url, origin):
    files = URLS // PER_FILE
    home = origin.url.encode()
    page = index(files).replace(HOME.encode(), home)
    origin.answer = lambda path: Answer(page if path == "/index.xml" else sitemap(int(path[1:-7]), PER_FILE))
    words = ("--sitemap", f"{origin.url}/index.xml", "--sitemap-hosts", "a.test")
    row, said, peak = await measured(await enqueue(folder, queue_url, *words))
    assert (row["enqueued"], row["duplicate"], row["invalid"]) == (files * PER_FILE, 0, 0), said
    assert f"Sitemaps: {files * PER_FILE:,} URLs in {files + 1} files" in said
    assert peak < MOST_MEMORY


@pytest.mark.long
async def test_hostile_sitemaps_are_bounded_and_named_and_the_good_one_enters(folder, tmp_path, origin):
    laughs = "".join(f'<!ENTITY l{n} "{f"&l{n - 1};" * 10}">' for n in range(1, 10))
    loc = "<urlset><url><loc>{}</loc></url></urlset>"
    files = {
        "/itself": f"<sitemapindex><sitemap><loc>{origin.url}/itself</loc></sitemap></sitemapindex>",
        "/bomb": f'<!DOCTYPE x [<!ENTITY l0 "lol">{laughs}]>{loc.format("&l9;")}',
        "/entity": f'<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/passwd">]>{loc.format("&e;")}',
        "/gzip": gzip_bomb(b"<urlset>", 1024),
        "/elsewhere": loc.format("https://evil.test/"),
        "/good": loc.format(f"{origin.url}/page"),
    }
    origin.answer = lambda path: Answer(files.get(path, ""), 200 if path in files else 404)
    words = [word for name in files for word in ("--sitemap", origin.url + name)]
    row, said, peak = await measured(
        await enqueue(folder, f"sqlite:///{tmp_path}/queue.db", *words, "--rejects", "bad.jsonl")
    )
    bad = [json.loads(line)["text"] for line in (folder / "bad.jsonl").read_text().splitlines()]
    unreadable = ("/itself", "/bomb", "/entity", "/gzip")
    assert (row["enqueued"], row["invalid"]) == (1, 5)
    assert sorted(bad) == sorted(["https://evil.test/", *(origin.url + name for name in unreadable)])
    for name, reason in {
        "/itself": "a loop",
        "/bomb": "its DOCTYPE declares entities",
        "/entity": "its DOCTYPE declares entities",
        "/gzip": "it has more than 52,428,800 bytes",
    }.items():
        assert any(name in line and reason in line for line in said.splitlines()), (name, said)
    assert "root:" not in said and peak < MOST_MEMORY
