"""Partition options in a job, and in the command that resumes it."""

import asyncio

import pytest

from shoal.cli.options.workers import read_job
from shoal.core.errors import InvalidSetting
from shoal.core.model import Task
from shoal.fleet.command_hints import job_options
from shoal.queue.open import open_queue
from shoal.worker.partitions import HEARTBEAT, PartitionRole
from tests.unit.cli.typed import typed

SCRAPER = """
from shoal import Scraper
states = Scraper("states")

@states.step(fetch=None)
async def state(task):
    yield {}
"""


@pytest.fixture
def job(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "states.py").write_text(SCRAPER)
    (tmp_path / "table.toml").write_text('1 = ["CA"]')
    return lambda **options: read_job("states.py", queue="sqlite:///shoal.db", **options)


def test_named_partitions_need_no_plan(job):
    for named in (None, ["CA"], ["auto", "auto"], ["auto", "CA"]):
        found = job(partitions=named)
        assert (found.sharing, found.partitions) == (None, named)


def test_one_word_assigns_them_automatically(job):
    assert job(partitions=["auto"]).sharing == PartitionRole(heartbeat=HEARTBEAT)
    assert job(partitions=["exclusive"], heartbeat="1s").sharing.exclusive
    assert job(partitions=["exclusive"], heartbeat="1s").sharing.poll_interval.total_seconds() == 0.2


def test_a_table_assigns_them_by_itself(job):
    assert job(partition_table="table.toml").sharing.homes == {"CA": 1}
    assert job(partition_table="table.toml", partitions=["exclusive"]).sharing.exclusive
    with pytest.raises(InvalidSetting, match="leave out --partitions"):
        job(partition_table="table.toml", partitions=["CA"])


def test_a_heartbeat_is_a_duration(job):
    with pytest.raises(InvalidSetting, match="--heartbeat"):
        job(heartbeat="0s")


def test_the_resume_command_assigns_them_too(job):
    assert job_options(job(partitions=["exclusive"])) == ["--partitions", "exclusive"]
    assert job_options(job()) == []


@pytest.mark.parametrize("ends", [False, True])
def test_workers_are_offered_for_partitions_of_runs_only_that_have_not_ended(tmp_path, monkeypatch, ends):
    monkeypatch.chdir(tmp_path)

    async def fill():
        async with open_queue("sqlite:///shoal.db") as queue:
            run = await queue.start_run("states")
            await queue.enqueue(run.id, [Task(payload={"n": 1}, partition="CA")])
            if ends:
                await queue.cancel(run.id)

    asyncio.run(fill())
    output = typed("partitions", "newest").output
    assert ("Start workers for them" in output, "The run is cancelled." in output) == (not ends, ends)
