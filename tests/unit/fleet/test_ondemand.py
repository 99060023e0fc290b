"""Desks, secrets and addresses of calls on demand."""

import pytest

from shoal.core.errors import CallFailed, InvalidSetting
from shoal.fleet import desk as desks
from shoal.fleet.desk import Desk
from shoal.fleet.launch import Job
from shoal.fleet.ondemand import listening_job, outdated_words, standing_run
from shoal.queue.open import open_queue
from shoal.scrape.scraper import Scraper
from shoal.worker.secret import shared_secret

PAGES = Scraper("pages")
JOB = Job(scraper=PAGES, name="p.py", reference="p.py", queue_url="sqlite:///:memory:", workers=3)


@pytest.fixture
async def queue(tmp_path):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        yield queue


async def test_no_two_balancers_share_a_desk_and_a_free_one_is_taken_again(queue):
    async with Desk(queue, "run", "a") as first, Desk(queue, "run", "b") as second:
        assert (first.name, second.name) == ("desk-0", "desk-1")
        async with Desk(queue, "other", "c") as third:
            assert third.name == "desk-0"
    async with Desk(queue, "run", "d") as later:
        assert later.name == "desk-0"


async def test_there_is_an_end_to_the_desks(queue, monkeypatch):
    monkeypatch.setattr(desks, "DESKS", 1)
    async with Desk(queue, "run", "a"):
        with pytest.raises(CallFailed, match="taken"):
            await Desk(queue, "run", "b").__aenter__()


async def test_who_has_lost_a_desk_takes_another(queue):
    async with Desk(queue, "run", "a") as desk:
        await queue.write_notes("desks run", {"desk-0": b"another"})
        await desk._hold_or_take()
        assert desk.name == "desk-1"


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
    assert outdated_words(run, PAGES) is None
    changed = PAGES.replace(rate="2/s")
    assert await standing_run(queue, changed) == run
    assert "shoal purge ondemand_pages" in outdated_words(run, changed)
