"""Every record's way through the steps, on every queue and on the command line."""

import ast
import re
from pathlib import Path

import pytest

import shoal
from shoal.cli.exits import Exit
from shoal.core.model import ZERO, Bury, Done, Release, RunSettings, Task, TaskState
from shoal.fleet.handle import RunHandle
from shoal.fleet.status import records as looking
from shoal.queue.open import open_queue
from shoal.scrape.load import load_scraper
from tests.integration.engine.shell import typed

ME, OTHER = "here-1-a", "there-2-b"
FORGETFUL = ("redis", "amqp")  # keep no text of what is completed


@pytest.fixture
async def run(any_bench):
    """Five records: one went on and is held, one is done, one died, one is held, one waits."""
    async with open_queue(any_bench.queue_url) as queue:
        run = await queue.start_run("people", settings=RunSettings(host_delay=ZERO))
        await queue.enqueue(run.id, [Task(step="initial", key=f"r{number}") for number in range(5)])
        leases = {lease.task.key: lease for lease in (await queue.claim(ME, run_id=run.id)).leases}
        profile = Task(url="https://a.test/r0", step="profile", key="r0")
        await queue.settle(
            [
                Done(leases["r0"], items=[{"n": 0}], follow=[profile]),
                Done(leases["r1"], items=[{"n": 1}, {"n": 2}]),
                Bury(leases["r2"], "ValueError: no"),
                Release(leases["r4"]),
            ]
        )
        (held,) = (await queue.claim(OTHER, run_id=run.id, steps=["profile"])).leases
        assert held.task.key == "r0"
        yield RunHandle(queue, run)


async def found(run, **asked):
    return {record.name: record.stages async for record in run.records(**asked)}


def states(stages):
    return {step: str(stage.state) for step, stage in stages.items()}


async def test_records_are_followed_through_all_steps_and_chosen_by_key_step_and_state(run, any_bench):
    stages = (await found(run, key="r0"))["r0"]
    assert states(stages) == {"initial": "completed", "profile": "leased"}
    assert (stages["initial"].items, stages["profile"].worker_id) == (1, OTHER)
    assert stages["profile"].since is not None
    assert await found(run, key="nobody") == {}

    seen = [record.name async for record in run.records()]
    assert len(seen) == len(set(seen))
    every = {name: states(stages) for name, stages in (await found(run)).items()}
    done = {} if any_bench.queue_url.startswith(FORGETFUL) else {"r1": {"initial": "completed"}}
    assert every == done | {
        "r0": {"initial": "completed", "profile": "leased"},
        "r2": {"initial": "dead"},
        "r3": {"initial": "leased"},
        "r4": {"initial": "pending"},
    }

    assert set(await found(run, step="profile")) == {"r0"}
    assert set(await found(run, states=[TaskState.LEASED])) == {"r0", "r3"}
    assert set(await found(run, step="initial", states=[TaskState.DEAD, TaskState.PENDING])) == {"r2", "r4"}
    listed = await found(run, step="initial", states=[TaskState.COMPLETED])
    assert sorted(stages["initial"].items for stages in listed.values()) == [1, 2]


async def test_many_records_are_read_in_pages(any_bench, monkeypatch):
    monkeypatch.setattr(looking, "PAGE", 7)
    async with open_queue(any_bench.queue_url) as queue:
        run = await queue.start_run("people", settings=RunSettings(host_delay=ZERO))
        tasks = [Task(step=step, key=f"r{number}") for number in range(40) for step in ("one", "two")]
        await queue.enqueue(run.id, tasks)
        # Whatever a broker keeps is listed once it was claimed.
        await queue.claim(ME, run_id=run.id, limit=100)
        names = [record.name async for record in RunHandle(queue, run).records()]
    assert sorted(names) == sorted(f"r{number}" for number in range(40))


PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "stages.md").read_text()


@pytest.mark.parametrize("any_bench", ["sqlite"], indirect=True)
async def test_the_examples_of_the_page_run(run, any_bench, tmp_path, capsys):
    scraper, example = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "people.py").write_text(scraper)
    assert list(load_scraper(f"{tmp_path}/people.py").steps) == ["initial", "profile", "enhanced"]
    names = {"shoal": shoal, "url": any_bench.queue_url, "run_id": run.id}
    await eval(compile(example, "stages.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT), names)
    assert capsys.readouterr().out == f"r0 {OTHER}\n"


SCRAPER = """
from shoal import Scraper, Task

people = Scraper("people", retries=0)

@people.step(fetch=None)
async def initial(task: Task):
    name = task.payload["name"]
    if name == "nobody":
        raise LookupError("no such person")
    yield {"name": name}
    yield Task(step="profile", key=name)

@people.step(fetch=None)
async def profile(task: Task):
    yield {"name": task.key}
"""


@pytest.mark.long
async def test_the_command_shows_them_to_people_and_to_programs(tmp_path):
    (tmp_path / "people.py").write_text(SCRAPER)
    (tmp_path / "people.jsonl").write_text(
        '{"name": "ann", "key": "ann"}\n{"name": "nobody", "key": "nobody"}\n'
    )
    done = await typed("run", "people.py", "--urls-file", "people.jsonl", "--json", folder=tmp_path)
    run_id = done.row["run_id"]
    rows = {row["record"]: row for row in (await typed("records", run_id, "--json", folder=tmp_path)).rows}
    assert {step: stage["state"] for step, stage in rows["ann"]["steps"].items()} == {
        "initial": "completed",
        "profile": "completed",
    }
    assert rows["nobody"]["steps"]["initial"]["state"] == "dead"
    shown = await typed("records", run_id, folder=tmp_path)
    assert "completed" in shown.out and "nobody" in shown.out
    few = await typed("records", run_id, "--limit", "1", folder=tmp_path)
    assert "--limit 10" in few.err
    one = await typed("records", run_id, "ann", "--json", folder=tmp_path)
    assert one.row["steps"]["profile"]["items"] == 1
    dead = await typed("records", run_id, "--state", "dead", "--json", folder=tmp_path)
    assert [row["record"] for row in dead.rows] == ["nobody"]
    missing = await typed("records", run_id, "bob", folder=tmp_path)
    assert missing.code == Exit.USAGE and f"shoal records {run_id}" in missing.err
    assert (await typed("records", "nowhere", folder=tmp_path)).code == Exit.USAGE
