"""Where a run's tasks come from, typed as a person would."""

import json

import pytest

from shoal.cli.exits import Exit
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import typed

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, allow_private="127.0.0.0/8")

@pages.step
async def page(page: Page):
    yield {"url": page.url, "next": page.url + "/more"}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    return tmp_path


async def enqueue(folder, *words):
    return await typed("enqueue", "pages.py", "--json", *words, folder=folder)


async def test_a_table_gives_urls_and_a_reject_file_says_what_was_wrong(folder, origin):
    (folder / "urls.csv").write_text(f"name,link\na,{origin.url}/1\nb,nonsense\nc,{origin.url}/2\n")
    queued = await enqueue(folder, "--urls-file", "urls.csv", "--rejects", "bad.jsonl")
    assert (queued.row["enqueued"], queued.row["invalid"]) == (2, 1)
    assert "urls.csv:3" in (folder / "bad.jsonl").read_text()
    by_name = await enqueue(folder, "--urls-file", "urls.csv", "--column", "nam")
    assert by_name.code == Exit.USAGE and "name" in by_name.err


async def test_a_sitemap_gives_urls_and_is_reported(folder, origin):
    listed = "".join(f"<url><loc>{origin.url}/{number}</loc></url>" for number in range(3))
    pages = {
        "/sitemap.xml": f"<urlset>{listed}<url><loc>http://other.example/</loc></url></urlset>",
        "/robots.txt": f"Sitemap: {origin.url}/sitemap.xml",
    }
    origin.answer = lambda path: Answer(pages.get(path, ""), headers={"Content-Type": "text/xml"})
    queued = await enqueue(folder, "--sitemap", f"{origin.url}/")
    assert queued.row["enqueued"] == 3, queued.err
    assert "Sitemaps: 3 URLs in 1 file" in queued.err


async def test_combinations_give_urls_with_their_values_as_payload(folder, origin):
    (folder / "states.txt").write_text("CA\nNY\n")
    queued = await enqueue(
        folder,
        "--combine",
        origin.url + "/{state}?c={kind}",
        "--axis",
        "state=states.txt",
        "--axis",
        "kind:a,b,c",
    )
    assert queued.row["enqueued"] == 6, queued.err


async def test_routes_of_the_project_decide_and_explain(folder, origin):
    (folder / "shoal.toml").write_text(
        '[[routes]]\nmatch = "*/urgent/*"\npriority = 9\nttl = "30m"\n\n'
        '[[routes]]\npath = "*"\npartition = "rest"\n'
    )
    shown = (await typed("route", f"{origin.url}/urgent/1", "--json", folder=folder)).rows
    assert {(row["rule"], row["sets"], row["to"]) for row in shown} == {
        (1, "priority", "9"),
        (1, "ttl", "30m"),
        (2, "partition", "rest"),
    }
    queued = await enqueue(folder, f"--url={origin.url}/urgent/1", f"--url={origin.url}/2")
    status = (await typed("status", queued.row["run_id"], "--json", folder=folder)).row
    assert status["partitions"]["rest"]["pending"] == 2


async def partitions_of(folder, queued):
    assert queued.code == Exit.OK, queued.err
    status = (await typed("status", queued.row["run_id"], "--json", folder=folder)).row
    return {name: counts["pending"] for name, counts in status["partitions"].items()}


async def test_columns_of_a_table_give_partition_priority_key_and_payload(folder):
    (folder / "urls.csv").write_text(
        "link;state;rank;id\nhttps://a.test/1;CA;9;x\nhttps://a.test/2;NY;1;x\nhttps://a.test/3;NY;1;z\n"
    )
    words = ["--urls-file", "urls.csv", "--partition", "state", "--priority", "rank", "--key", "id"]
    queued = await enqueue(folder, *words, "--payload", "state,rank", "--delimiter", ";")
    assert await partitions_of(folder, queued) == {"CA": 1, "NY": 1}
    assert queued.row["duplicate"] == 1  # the key is taken
    wrong = await enqueue(folder, "--urls-file", "urls.csv", "--partition", "stat")
    assert wrong.code == Exit.USAGE and "Did you mean 'state'?" in wrong.err


@pytest.mark.long
async def test_a_partition_may_be_the_same_for_all(folder):
    (folder / "urls.csv").write_text("url,state\nhttps://a.test/1,CA\n")
    marked = await enqueue(folder, "--urls-file", "urls.csv", "--partition", ":east")
    assert await partitions_of(folder, marked) == {"east": 1}
    plain = await enqueue(folder, "--url", "https://a.test/", "--partition", "east", "--priority", "9")
    assert await partitions_of(folder, plain) == {"east": 1}
    axis = await enqueue(
        folder, "--combine", "https://a.test/{state}", "--axis", "state:CA,NY", "--partition", "state"
    )
    assert await partitions_of(folder, axis) == {"CA": 1, "NY": 1}


async def test_combinations_may_be_payloads_of_a_step_and_files_have_their_own_encoding(folder):
    (folder / "pages.py").write_text(
        SCRAPER
        + "\n@pages.step(fetch=None)\nasync def search(task):\n    yield {'query': task.payload['query']}\n"
    )
    (folder / "urls.txt").write_bytes("https://a.test/é\n".encode("latin-1"))
    read = await enqueue(folder, "--urls-file", "urls.txt", "--encoding", "latin-1")
    assert read.row["enqueued"] == 1
    words = ["--axis", "user:ann,bob", "--payload", "query=author:{user}", "--seed-step", "search"]
    done = await typed("run", "pages.py", *words, "--json", "--out", "found.jsonl", folder=folder)
    assert done.row["completed"] == 2, done.err
    found = sorted(json.loads(line)["query"] for line in (folder / "found.jsonl").read_text().splitlines())
    assert found == ["author:ann", "author:bob"]


async def test_an_option_that_cannot_be_used_says_what_to_type(folder):
    (folder / "urls.txt").write_text("https://a.test/\n")
    alone = await enqueue(folder, "--since", "7d")
    assert alone.code == Exit.USAGE and "--since has no effect alone; add --sitemap" in alone.err
    text = await enqueue(folder, "--urls-file", "urls.txt", "--key", "id")
    assert text.code == Exit.USAGE and "is read as txt" in text.err
    step = await enqueue(folder, "--url", "https://a.test/", "--seed-step", "pag")
    assert step.code == Exit.USAGE and "Did you mean 'page'?" in step.err
