"""Partitions, secrets and addresses of on-demand calls."""

import pytest

from shoal.core.errors import CallFailed, InvalidSetting, RunConflict
from shoal.core.model import Task
from shoal.fleet.cluster_roles import WorkerHost
from shoal.fleet.job import Job
from shoal.fleet.ondemand import dispatch
from shoal.fleet.ondemand.dispatch import CallPartition
from shoal.fleet.ondemand.standing_run import listening_job, outdated_notice, standing_run
from shoal.fleet.run.open_run import find_unfinished, open_job
from shoal.fleet.status.find import find_run
from shoal.scrape.scraper import Scraper
from shoal.worker.ondemand import shared_secret

PAGES = Scraper("pages")
PAGES.step(name="main")(lambda page: None)
JOB = Job(scraper=PAGES, name="p.py", reference="p.py", queue_url="sqlite:///:memory:", workers=3)


async def test_no_two_balancers_share_a_partition_and_a_free_one_is_reused(queue):
    async with CallPartition(queue, "run", "a") as first, CallPartition(queue, "run", "b") as second:
        assert (first.name, second.name) == ("desk-0", "desk-1")
        async with CallPartition(queue, "other", "c") as third:
            assert third.name == "desk-0"
    async with CallPartition(queue, "run", "d") as later:
        assert later.name == "desk-0"


async def test_the_number_of_partitions_is_limited(queue, monkeypatch):
    monkeypatch.setattr(dispatch, "PARTITIONS", 1)
    async with CallPartition(queue, "run", "a"):
        with pytest.raises(CallFailed, match="in use"):
            await CallPartition(queue, "run", "b").__aenter__()


async def test_a_balancer_that_has_lost_its_partition_reserves_another(queue):
    async with CallPartition(queue, "run", "a") as partition:
        await queue.write_notes("desks run", {"desk-0": b"another"})
        await partition._renew_or_reserve()
        assert partition.name == "desk-1"


async def test_all_who_read_the_queue_find_the_same_secret(queue, monkeypatch):
    monkeypatch.delenv("SHOAL_SECRET", raising=False)
    made = await shared_secret(queue)
    assert len(made) == 32 and await shared_secret(queue) == made


async def test_a_secret_that_was_set_counts_and_a_short_one_is_refused(queue, monkeypatch):
    monkeypatch.setenv("SHOAL_SECRET", "0123456789abcdef")
    assert await shared_secret(queue) == b"0123456789abcdef"
    monkeypatch.setenv("SHOAL_SECRET", "short")
    with pytest.raises(InvalidSetting, match="openssl rand"):
        await shared_secret(queue)


@pytest.mark.parametrize(
    ("at", "announce", "says"),
    [
        ("here", None, "HOST:PORT"),
        ("127.0.0.1:70000", None, "HOST:PORT"),
        ("127.0.0.1:1", "ftp://x/{port}", "takes a URL"),
        ("127.0.0.1:1", "https://x/{name}", "no other braces"),
        ("127.0.0.1:1", "https://x/{", "no other braces"),
    ],
)
def test_an_address_that_makes_no_sense_is_refused(at, announce, says):
    with pytest.raises(InvalidSetting, match=says):
        listening_job(JOB, at, announce)


def test_a_worker_that_listens_everywhere_is_announced_by_its_machines_name():
    listening = listening_job(JOB, "0.0.0.0:8400").listening
    assert (listening.port, listening.ports) == (8400, 3)
    assert "0.0.0.0" not in listening.announce and "{port}" in listening.announce


async def test_a_standing_run_says_that_its_settings_are_not_those_of_now(queue):
    run = await standing_run(queue, PAGES)
    assert outdated_notice(run, PAGES) is None
    changed = PAGES.replace(rate="2/s")
    assert await standing_run(queue, changed) == run
    assert "shoal purge ondemand_pages" in outdated_notice(run, changed)


async def test_only_callers_work_on_the_run_for_calls(queue):
    run = await standing_run(queue, PAGES)
    await queue.enqueue(run.id, [Task(url="https://a.example/1", partition="desk-0")])
    assert await WorkerHost(queue, [JOB])._next_run(JOB) is None
    with pytest.raises(InvalidSetting, match="has no runs of 'pages'"):
        await find_run(queue, scraper="pages")
    with pytest.raises(InvalidSetting, match="no unfinished run"):
        await find_unfinished(queue, "pages")
    with pytest.raises(RunConflict, match=r"is for calls.* shoal listen p\.py"):
        await open_job(queue, JOB, run_id=run.id, resume=True)
    other = await queue.start_run("pages", settings=run.settings)
    await queue.enqueue(other.id, [Task(url="https://a.example/1")])
    assert await WorkerHost(queue, [JOB])._next_run(JOB) == other
    assert await find_run(queue, scraper="pages") == other
