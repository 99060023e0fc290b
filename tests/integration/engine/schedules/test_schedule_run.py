"""The commands as a newcomer types them: every run is told of, if something is wrong."""

import asyncio
import json
import signal

import pytest

from shoal.fleet.project.file import read
from shoal.fleet.schedule.store import Schedules
from shoal.queue.open import open_queue
from tests.integration.engine.shell import start, typed
from tests.unit.fleet.notify.receiver import Receiver

SCRAPER = """
from pathlib import Path
from shoal import Scraper, Task

names = Scraper("names", retries=0)

@names.step(fetch=None)
async def name(task: Task):
    if Path("broken").exists():
        raise ValueError("the site has changed")
    yield {"name": task.payload["name"]}
"""
TOML = """
queue = "sqlite:///queue.db"

[scrapers.names]
module = "names.py:names"
seeds = {{ axis = ["name:ann,bob"] }}

[schedules.nightly]
scraper = "names"
cron = "0 2 * * *"
out = "results/{{run}}.jsonl"

[notify.team]
kind = "slack"
url = "env:SLACK_URL"
"""


@pytest.fixture
async def receiver():
    async with Receiver() as opened:
        yield opened


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "names.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text(TOML.format())
    return tmp_path


async def ended(folder, count):
    """Wait until so many occurrences have ended, and return the rows of all, the newest first."""
    async with open_queue(f"sqlite:///{folder}/queue.db") as queue:
        schedules = Schedules(queue, read(folder / "shoal.toml"))
        while len([one for one in (await schedules.get("nightly")).occurrences if one.ended_at]) < count:
            await asyncio.sleep(0.1)
    return (await typed("schedule", "history", "nightly", "--json", folder=folder)).rows


async def test_every_night_and_a_message_if_something_is_wrong(folder, receiver):
    (folder / ".env").write_text(f"SLACK_URL={receiver.url}\n")
    assert (await typed("notify", "test", "team", folder=folder)).code == 0
    (folder / "broken").touch()
    process = await start("schedule", "run", folder=folder)
    try:
        async with asyncio.timeout(80):
            assert (await typed("schedule", "run-now", "nightly", folder=folder)).code == 0
            assert [row["outcome"] for row in await ended(folder, 1)] == ["failed"]
            (folder / "broken").unlink()
            await typed("schedule", "run-now", "nightly", folder=folder)
            good = (await ended(folder, 2))[0]
            while len(receiver.requests) < 3:
                await asyncio.sleep(0.1)
    finally:
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()
    assert good["outcome"] == "complete"
    file = folder / "results" / f"{good['run_id']}.jsonl"
    assert sorted(json.loads(line)["name"] for line in file.read_text().splitlines()) == ["ann", "bob"]
    tested, bad, over = (one["text"] for one in receiver.messages)
    assert "Test message" in tested
    assert bad.startswith(":warning:") and "failed" in bad
    assert over.startswith(":white_check_mark:") and good["run_id"] in over


async def test_a_message_that_cannot_be_sent_holds_up_nothing_and_shows_no_secret(folder):
    async with Receiver() as gone:
        url = f"http://127.0.0.1:{gone.port}/services/verysecret"
    (folder / "broken").touch()
    done = await typed("run", "names", "--json", folder=folder, SLACK_URL=url)
    assert done.rows[-1]["dead"] == 2
    assert "A message to 'team' could not be sent" in done.err and "verysecret" not in done.err
    listed = await typed("notify", "list", "--json", folder=folder, SLACK_URL=url)
    assert listed.row["waiting"] == 1 and "verysecret" not in listed.out


async def test_without_its_secret_a_process_says_that_it_sends_nothing_and_works(folder):
    done = await typed("run", "names", folder=folder)
    assert done.code == 0
    assert "No messages are sent to 'team' from here" in done.err
    tested = await typed("notify", "test", "team", folder=folder)
    assert tested.code == 2 and "needs the variable SLACK_URL" in tested.err


async def test_commands_show_change_and_remove_schedules(folder):
    async def schedule(*words):
        return await typed("schedule", *words, folder=folder)

    added = await schedule(
        *("add", "hourly", "names", "--every", "1h", "--axis", "name:eve", "--axis", "id=ids.txt"),
        *("--overlap", "wait", "--out", "{run}.csv", "--json"),
    )
    assert added.row["table"] == {
        "scraper": "names",
        "every": "1h",
        "overlap": "wait",
        "seeds": {"axis": ["name:eve", f"id={folder / 'ids.txt'}"]},
        "out": str(folder / "{run}.csv"),
    }
    assert [row["name"] for row in (await schedule("list", "--json")).rows] == ["hourly", "nightly"]
    assert (await schedule("pause", "nightly", "--json")).row["state"] == "paused"
    assert (await schedule("resume", "nightly", "--json")).row["state"] == "active"
    assert (await schedule("remove", "hourly")).code == 0
    again = await schedule("remove", "nightly")
    assert again.code == 2 and "is in shoal.toml: schedules.nightly" in again.err
    wrong = await schedule("show", "nightli")
    assert wrong.code == 2 and "Did you mean 'nightly'" in wrong.err
    refused = await schedule("add", "x", "names", "--cron", "every night")
    assert refused.code == 2 and "five fields" in refused.err
