"""A list that is longer than its page goes on with the command that it prints."""

import shlex

import pytest

from shoal.core.model import Bury, Done, Reject, Task
from shoal.queue.sqlite.queue import SqliteQueue
from tests.conformance.helpers import unhurried
from tests.integration.engine.shell import typed

COUNT = 5


@pytest.fixture
async def folder(tmp_path):
    async with await SqliteQueue.open(tmp_path / "shoal.db") as queue:
        await queue.start_run("books", settings=unhurried(), run_id="r")
        await queue.enqueue("r", [Task(url=f"https://h{n}.example/") for n in range(COUNT)])
        grant = await queue.claim("w", run_id="r")
        await queue.settle([Bury(lease, "gone for good") for lease in grant.leases])
        await queue.enqueue("r", [Task(url="https://h0.example/rejected")])
        (lease,) = (await queue.claim("w", run_id="r")).leases
        rejects = [Reject(data={"n": n}, reason="n: too large") for n in range(COUNT)]
        await queue.settle([Done(lease, rejects=rejects)])
    return tmp_path


@pytest.mark.parametrize(
    ("command", "name"),
    [
        (("dead", "list", "r", "--error", "gone for good"), "id"),
        (("hosts", "--run", "r"), "host"),
        (("rejects", "r", "--reason", "too large"), "id"),
    ],
)
async def test_a_list_is_read_by_the_commands_that_it_prints(folder, command, name):
    found, words = [], [*command, "--limit", 2, "--json"]
    for _ in range(COUNT):
        shown = await typed(*words, folder=folder)
        found += [row[name] for row in shown.rows]
        _, more, next_command = shown.err.partition("continue with: ")
        if not more:
            break
        shoal, *words = shlex.split(next_command)
        assert shoal == "shoal"
    assert len(set(found)) == len(found) == COUNT


async def test_a_cursor_of_no_list_is_refused(folder):
    shown = await typed("dead", "list", "r", "--after", "nowhere", folder=folder)
    assert shown.code != 0 and "after takes the cursor of a row" in shown.err
