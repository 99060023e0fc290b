"""What commands say of runs that nobody works on, that are in use, and of filters that match nothing."""

import asyncio
import re

import msgspec
import pytest

from shoal.cli.exits import Exit
from shoal.core.model import Bury, Done, Reject, Task
from shoal.fleet.dead_workers import liveness_info, new_worker_id
from shoal.queue.open import open_queue
from tests.unit.cli.typed import paste, typed

RUN = "20260215_120000_ab12"


def on_queue(work):
    async def run():
        async with open_queue("sqlite:///shoal.db") as queue:
            return await work(queue)

    return asyncio.run(run())


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SHOAL_QUEUE", raising=False)
    on_queue(_fill)
    return tmp_path


async def _fill(queue):
    await queue.start_run("books", run_id=RUN)
    await queue.enqueue(RUN, [Task(url=f"http://{n}.example/", step="page") for n in range(4)])
    one, two, three = (await queue.claim("w", run_id=RUN, limit=3)).leases
    await queue.settle(
        [
            Done(one, items=[{"n": 1}], rejects=[Reject(data={"n": 2}, reason="n: too large")]),
            Bury(two, "HttpStatus: 404"),
            Bury(three, "ValueError: no price"),
        ]
    )


@pytest.fixture
def worker(folder):
    async def beat(queue):
        await queue.beat(new_worker_id(), run_id=RUN, state="running", info=liveness_info())

    on_queue(beat)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("dead", "list", RUN, "--error", "x"), "None of 2 dead letters matches --error x."),
        (("dead", "replay", RUN, "--host", "b.example"), "None of 2 dead letters matches --host b.example."),
        (("dead", "drop", RUN, "--step", "s", "--yes"), "None of 2 dead letters matches --step s."),
        (("items", RUN, "--step", "s"), "The only item does not match --step s."),
        (("rejects", RUN, "--reason", "x"), "The only rejected item does not match --reason x."),
        (("records", RUN, "--state", "expired"), "None of 4 tasks matches --state expired."),
        (("workers", "--run", RUN), f"No workers on run {RUN} yet."),
        (("hosts", "--run", RUN, "--after", "z"), "No host comes after z."),
    ],
)
def test_a_filter_that_matches_nothing_says_how_many_there_are(words, says):
    done = typed(*words)
    assert says in done.stderr and not done.stdout


def test_a_run_in_use_is_not_deleted_and_the_shown_command_lets_it_be(worker):
    refused = typed("purge", RUN, "--yes")
    assert refused.exit_code == Exit.USAGE
    assert "is running and not deleted: 1 worker runs on it" in refused.stderr.replace("\n", " ")
    assert typed("purge", RUN, "--dry-run").exit_code == Exit.USAGE
    (command,) = re.findall(r"shoal cancel \S+", refused.stderr)
    assert paste(command).exit_code == Exit.OK
    assert typed("purge", RUN, "--yes").exit_code == Exit.OK
    assert "No runs yet" in typed("runs").stderr


def test_a_dry_run_of_one_run_shows_what_would_go():
    shown = typed("purge", RUN, "--dry-run")
    assert "Would delete 1 run with 4 tasks, 1 item, 2 dead letters." in shown.stderr
    row = msgspec.json.decode(typed("purge", RUN, "--dry-run", "--json").stdout)
    assert (row["purged"], row["dry_run"], row["items"]) == (False, True, 1)
    assert typed("status", RUN).exit_code == Exit.OK


@pytest.mark.parametrize("words", [("set", RUN, "rate=2/s"), ("resume", RUN)])
def test_nobody_follows_a_change_if_nobody_works(words):
    said = typed(*words).stderr
    assert f"No worker works on it. To start one, run: shoal run books --resume {RUN}" in said
    assert "follow" not in said and "notice" not in said


@pytest.mark.parametrize("words", [("set", RUN, "rate=2/s"), ("resume", RUN)])
def test_workers_that_are_there_are_said_to_follow(worker, words):
    said = typed(*words).stderr
    assert "Its workers" in said and "No worker" not in said


def test_the_settings_are_listed_with_a_command_that_changes_one():
    listed = typed("set", RUN)
    assert "max_pages" in listed.stdout or "rate" in listed.stdout
    (command,) = re.findall(r"run: (shoal set .+)", listed.stderr)
    assert paste(command).exit_code == Exit.OK
