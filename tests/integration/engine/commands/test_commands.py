"""The command line as a person meets it: words, exit codes, and what to type next."""

import asyncio
import os
import signal
import socket

import apsw
import pytest

from shoal.cli.exits import Exit
from shoal.fetch.browser.process import find_chromium
from tests.conftest import or_skip
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import start, typed
from tests.servers.proxies import TinyProxy

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0)

@pages.step
async def page(page: Page):
    yield {"url": page.url, "title": page.text("title")}
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    return tmp_path


@pytest.fixture
def site(origin):
    origin.answer = lambda path: Answer(status=500 if "bad" in path else 200)
    return origin


async def run(folder, *words):
    return await typed("run", "pages.py", "--json", *words, folder=folder)


async def test_a_run_reports_and_its_items_can_be_had_in_every_format(folder, site):
    done = await run(folder, *[f"--url={site.url}/{number}" for number in range(5)], "--out", "live.jsonl")
    assert done.code == Exit.OK
    assert done.row["completed"] == done.row["items"] == done.row["enqueued"] == 5
    assert len((folder / "live.jsonl").read_text().splitlines()) == 5
    for name in ("a.jsonl", "a.csv", "a.parquet", "a.jsonl.gz"):
        wrote = await typed("export", done.row["run_id"], "--to", name, "--json", folder=folder)
        assert wrote.row == {
            "run_id": done.row["run_id"],
            "items": 5,
            "file": name,
            "steps": {"page": 5},
            "skipped": 0,
        }
        assert (folder / name).stat().st_size > 0
    printed = await typed("export", done.row["run_id"], "--to", "-", folder=folder)
    assert len(printed.rows) == 5 and "Wrote 5 items" in printed.err


async def test_a_run_may_end_in_a_table(folder, site):
    done = await run(folder, f"--url={site.url}/1", "--out", "sqlite:///shop.db?table=pages&key=url")
    assert done.code == Exit.OK, done.err
    connection = apsw.Connection(str(folder / "shop.db"))
    assert connection.execute("SELECT url FROM pages").fetchall() == [(f"{site.url}/1",)]
    connection.close()


async def test_looking_at_a_finished_run(folder, site):
    run_id = (await run(folder, f"--url={site.url}/1", f"--url={site.url}/bad")).row["run_id"]
    status = (await typed("status", run_id, "--json", folder=folder)).row
    assert (status["state"], status["completed"], status["dead"], status["remaining"]) == (
        "finished",
        1,
        1,
        0,
    )
    assert status["steps"]["page"]["completed"] == 1
    assert (await typed("runs", "--json", folder=folder)).row["run_id"] == run_id
    workers = (await typed("workers", "newest", "--all", "--json", folder=folder)).rows
    assert sum(worker["completed"] for worker in workers) == 1
    assert {worker["state"] for worker in workers} == {"ended"}
    assert (await typed("hosts", "--run", run_id, "--json", folder=folder)).row[
        "host"
    ] == f"127.0.0.1:{site.port}"
    assert (await typed("watch", run_id, "--json", folder=folder)).row["state"] == "finished"
    for command in (["status"], ["runs"], ["workers"], ["hosts"], ["watch", run_id]):
        shown = await typed(*command, folder=folder)
        assert shown.code == 0, shown.err


async def test_dead_letters_are_listed_shown_replayed_and_dropped(folder, site):
    first = await run(folder, f"--url={site.url}/bad1", f"--url={site.url}/bad2")
    assert first.code == Exit.FAILED
    run_id = first.row["run_id"]
    listed = (await typed("dead", "list", run_id, "--json", folder=folder)).rows
    assert len(listed) == 2 and all("status 500" in row["error"] for row in listed)
    one = (await typed("dead", "show", run_id, listed[0]["id"], "--json", folder=folder)).row
    assert len(one["history"]) == 1
    assert (await typed("dead", "show", run_id, "nothing", folder=folder)).code == Exit.USAGE
    replayed = await typed("dead", "replay", run_id, listed[0]["id"], "--json", folder=folder)
    assert replayed.row == {"run_id": run_id, "replayed": 1, "delay_seconds": 0.0}
    site.answer = lambda path: Answer()
    again = await run(folder, "--resume", run_id, "--allow-private", "127.0.0.0/8")
    assert again.row["completed"] == 1
    dropped = await typed("dead", "drop", run_id, "--yes", "--json", folder=folder)
    assert dropped.row == {"run_id": run_id, "dropped": 1}


async def test_the_last_words_say_what_went_wrong(folder, site):
    done = await typed("run", "pages.py", f"--url={site.url}/bad", "--url=nowhere", folder=folder)
    assert done.code == Exit.FAILED
    assert "Outcome:  failed: 1 task failed, and none succeeded." in done.err
    assert "1 dead letter, 1 invalid in" in done.err and "Failed attempts: 1 HttpStatus." in done.err


async def test_a_run_may_be_given_a_time_and_be_resumed(folder, site):
    urls = [f"--url={site.url}/{number}" for number in range(40)]
    slow = ("--set", "rate=10/s", "--set", "per_host=1")
    done = await typed("run", "pages.py", *urls, *slow, "--for", "1s", folder=folder)
    assert done.code == Exit.TIMED_OUT
    assert "Time limit reached: finishing" in done.err and "Stopped with" in done.err
    assert "\nResume:   shoal run pages.py --resume" in done.err
    again = await run(folder, "--resume", "newest", "--set", "rate=null", "--allow-private", "127.0.0.0/8")
    assert (again.code, again.row["completed"]) == (Exit.OK, 40)
    assert set(site.visits.values()) == {1}


async def test_enqueue_prints_the_command_that_works_on_the_run(folder, site):
    queued = (await typed("enqueue", "pages.py", f"--url={site.url}/1", "--json", folder=folder)).row
    assert queued["status"] == "queued" and queued["enqueued"] == 1
    words = queued["worker_command"].split()
    assert words[:2] == ["shoal", "work"]
    worked = await typed(*words[1:], "--json", folder=folder)
    assert worked.code == Exit.OK and worked.row["completed"] == 1


async def test_a_paused_run_waits_and_a_cancelled_one_ends(folder, site):
    queued = (await typed("enqueue", "pages.py", f"--url={site.url}/1", "--json", folder=folder)).row
    run_id = queued["run_id"]
    assert (await typed("pause", run_id, "--json", folder=folder)).row["state"] == "paused"
    worker = await start(*queued["worker_command"].split()[1:], "--json", folder=folder)
    await asyncio.sleep(2)
    assert worker.returncode is None and not site.visits
    assert (await typed("resume", run_id, "--json", folder=folder)).row["state"] == "running"
    assert await asyncio.wait_for(worker.wait(), 30) == 0
    await typed("enqueue", "pages.py", f"--url={site.url}/2", "--run", run_id, folder=folder)
    assert (await typed("cancel", run_id, "--json", folder=folder)).row["state"] == "cancelled"
    assert (await typed("purge", run_id, "--yes", folder=folder)).code == 0
    assert (await typed("runs", "--json", folder=folder)).out == ""


async def test_the_same_scraper_does_not_run_twice_at_once(folder, site):
    site.answer = lambda path: Answer(after=60)
    first = await start("run", "pages.py", f"--url={site.url}/slow", folder=folder)
    async with asyncio.timeout(30):
        while not site.visits:
            await asyncio.sleep(0.05)
    second = await typed("run", "pages.py", f"--url={site.url}/2", folder=folder)
    assert second.code == Exit.BUSY
    assert f"{socket.gethostname()}-{first.pid}-" in second.err
    os.killpg(first.pid, signal.SIGKILL)
    await first.wait()
    site.answer = lambda path: Answer()
    third = await typed("run", "pages.py", f"--url={site.url}/3", folder=folder)
    assert third.code == Exit.OK  # a dead holder is not waited for


async def test_a_run_goes_on_after_everything_was_killed(folder, site):
    site.answer = lambda path: Answer(after=0.05)
    (folder / "urls.txt").write_text("".join(f"{site.url}/{number}\n" for number in range(600)))
    words = (
        "--urls-file",
        "urls.txt",
        "--allow-private",
        "127.0.0.0/8",
        "--run",
        "r1",
        "--set",
        "lease=3s",
        "--set",
        "retries=2",
    )
    first = await start("run", "pages.py", *words, "--workers", "2", folder=folder)
    async with asyncio.timeout(60):
        while len(site.visits) < 150:
            await asyncio.sleep(0.02)
    os.killpg(first.pid, signal.SIGKILL)
    await first.wait()
    done = await run(folder, "--resume", "newest", "--allow-private", "127.0.0.0/8", "--out", "all.jsonl")
    assert done.code == Exit.OK and done.row["completed"] == done.row["items"] == 600
    assert len((folder / "all.jsonl").read_text().splitlines()) == 600


async def test_ctrl_c_finishes_what_is_in_hand_and_says_how_to_go_on(folder, site):
    site.answer = lambda path: Answer(after=0.3)
    (folder / "urls.txt").write_text("".join(f"{site.url}/{number}\n" for number in range(2_000)))
    first = await start(
        "run", "pages.py", "--urls-file", "urls.txt", "--allow-private", "127.0.0.0/8", folder=folder
    )
    async with asyncio.timeout(60):
        while not site.visits:
            await asyncio.sleep(0.02)
    os.killpg(first.pid, signal.SIGINT)  # as a terminal does: to every process of the group
    _, err = await asyncio.wait_for(first.communicate(), 30)
    assert first.returncode == Exit.PARTIAL
    assert "press Ctrl-C again" in err.decode() and "--resume" in err.decode()
    assert (await typed("status", "--json", folder=folder)).row["leased"] == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ([], Exit.USAGE, "Usage"),
        (["run", "pages.py"], Exit.USAGE, "No URLs to start with. Run: shoal run pages.py --url"),
        (["run", "nowhere.py", "--url", "http://x.example"], Exit.USAGE, "nowhere.py"),
        (
            ["run", "pages.py", "--url", "http://x.example", "--set", "rat=5"],
            Exit.USAGE,
            "Did you mean 'rate'",
        ),
        (["run", "pages.py", "--url", "http://x.example", "--set", "rate"], Exit.USAGE, "NAME=VALUE"),
        (["run", "pages.py", "--urls-file", "none.txt"], Exit.USAGE, "none.txt"),
        (["run", "pages.py", "--url", "http://x.example", "--out", "x.doc"], Exit.USAGE, ".jsonl"),
        (
            ["run", "pages.py", "--url", "http://x.example", "--queue", "sqlitee:///x"],
            Exit.USAGE,
            "Did you mean",
        ),
        (["run", "pages.py", "--resume", "newest"], Exit.USAGE, "no unfinished run"),
        (["status", "20260101_000000_abcd"], Exit.USAGE, "shoal runs"),
        (["status"], Exit.USAGE, "no runs"),
        (["export", "nothing", "--to", "x.csv"], Exit.USAGE, "No run is called"),
        (["new", "9 lives"], Exit.USAGE, "letters, digits"),
        (["frobnicate"], Exit.USAGE, "frobnicate"),
    ],
)
async def test_a_mistake_is_answered_with_what_to_type(folder, words, code, said):
    answer = await typed(*words, folder=folder)
    assert answer.code == code, answer.err
    assert said in answer.err + answer.out
    assert "Traceback" not in answer.err


@pytest.mark.parametrize("command", ["run", "fleet", "enqueue"])
async def test_with_json_a_start_without_urls_is_an_error_on_stdout_too(folder, command):
    answer = await typed(command, "pages.py", "--json", folder=folder)
    assert (answer.code, answer.row["error"]) == (Exit.USAGE, "InvalidInput")
    assert f"shoal {command} pages.py" in answer.row["message"]


async def test_a_queue_that_cannot_be_reached_is_waited_for_visibly_and_has_its_own_exit_code(folder):
    answer = await typed("runs", "--queue", "redis://127.0.0.1:1/0", folder=folder, SHOAL_PATIENCE="3s")
    assert answer.code == Exit.UNAVAILABLE
    assert "Waiting for the queue at" in answer.err
    assert "cannot be reached" in answer.err


async def test_shell_shows_what_a_selector_finds(tmp_path, origin):
    origin.answer = lambda path: Answer("" if path == "/robots.txt" else "<h1>Hello</h1>")
    shown = await typed("shell", origin.url, "--css", "h1", folder=tmp_path)
    assert shown.out == "Hello\n"
    none = await typed("shell", origin.url, "--css", "h1.x", folder=tmp_path)
    assert (none.code, none.out) == (0, "")
    assert f"Nothing matches 'h1.x' in {origin.url}/ (status 200, 14 bytes)." in none.err


@pytest.mark.long
async def test_shell_goes_by_a_proxy_and_with_a_browser(tmp_path, origin):
    or_skip(find_chromium)
    script = "<div id=root></div><script>root.innerHTML = '<h1>Hello</h1>'</script>"
    origin.answer = lambda path: Answer("" if path == "/robots.txt" else script)
    shell = ("shell", origin.url, "--css", "h1")
    assert (await typed(*shell, folder=tmp_path)).out == ""
    with or_skip(TinyProxy) as proxy:
        (tmp_path / "proxies.txt").write_text(proxy.url)
        shown = await typed(*shell, "--fetch", "browser", "--proxies", "proxies.txt", folder=tmp_path)
        assert shown.out == "Hello\n"
        assert len(proxy.visits()) >= 2  # robots.txt and the page
    gone = await typed(*shell, "--proxies", "proxies.txt", folder=tmp_path)
    assert gone.code == Exit.FAILED and "every proxy is benched" in gone.err
    assert (await typed(*shell, "--fetch", "auto", folder=tmp_path)).code == Exit.USAGE


@pytest.mark.long
async def test_the_demo_ends_well_and_what_it_says_can_be_typed(tmp_path):
    shown = await typed("demo", "--products", "160", "--workers", "2", folder=tmp_path)
    assert shown.code == Exit.OK, shown.err
    assert len((tmp_path / "demo.jsonl").read_text().splitlines()) > 90
    assert "forbidden by robots.txt" in shown.err
    rejected = next(line for line in shown.err.splitlines() if line.startswith("Rejected:"))
    listed = await typed(*rejected.split()[2:], folder=tmp_path)
    assert "price" in listed.out
    assert (await typed("demo", "--products", "100", folder=tmp_path)).code == Exit.OK
