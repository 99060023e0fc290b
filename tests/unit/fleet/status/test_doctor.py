"""The doctor: what it checks, and how it judges it."""

from datetime import timedelta

import pytest

from shoal.discover.routing import Routes, Rule
from shoal.fleet.status.doctor import CheckStatus, check_clock, examine, partitions_complete
from shoal.scrape.scraper import Scraper


async def examined(url):
    return {finding.what: finding async for finding in examine(url)}


async def test_everything_is_checked(tmp_path):
    found = await examined(f"sqlite:///{tmp_path}/queue.db")
    assert set(found) == {"scraper", "queue", "durability", "clock", "open files", "disk"}
    assert found["queue"].health is CheckStatus.GOOD
    assert found["clock"].health is CheckStatus.GOOD and "s from the queue's clock" in found["clock"].says


@pytest.mark.parametrize(
    ("option", "health"), [("", CheckStatus.POOR), ("?synchronous=full", CheckStatus.GOOD)]
)
async def test_a_queue_that_a_crash_can_cost_something_is_poor(tmp_path, option, health):
    found = (await examined(f"sqlite:///{tmp_path}/queue.db{option}"))["durability"]
    assert found.health is health and "crash" in found.says
    assert option or "add ?synchronous=full to the address" in found.says


async def test_a_queue_that_others_can_read_is_poor_and_one_that_it_makes_is_not(tmp_path):
    file = tmp_path / "queue.db"
    assert "privacy" not in await examined(f"sqlite:///{file}")
    file.chmod(0o644)
    found = (await examined(f"sqlite:///{file}"))["privacy"]
    assert found.health is CheckStatus.POOR and f"chmod 600 {file}" in found.says
    assert file.stat().st_mode & 0o777 == 0o644, "what its owner chose stays"


@pytest.mark.parametrize(
    ("seconds", "health", "word"),
    [
        (0.2, CheckStatus.GOOD, "0.2 s"),
        (90, CheckStatus.POOR, "90 s ahead of"),
        (-90, CheckStatus.POOR, "90 s behind"),
    ],
)
def test_a_clock_that_is_off_is_poor(seconds, health, word):
    found = check_clock(timedelta(seconds=seconds))
    assert found.health is health and word in found.says


async def test_a_rule_that_leads_to_no_step_is_named(tmp_path):
    routes = Routes([Rule("*/a", priority=1), Rule("*/live/*", step="live"), Rule("*/b", step="page")])
    pages = Scraper("pages")
    pages.step(name="page")(lambda page: None)
    found = [one async for one in examine(f"sqlite:///{tmp_path}/a.db", pages, routes=routes)]
    (named,) = [one for one in found if one.what == "routes"]
    assert named.health is CheckStatus.POOR
    assert named.says == "rule 2 leads to the step 'live', which pages lacks: its URLs are skipped"


async def test_a_queue_that_cannot_be_opened_is_bad_and_the_rest_is_checked(tmp_path):
    (tmp_path / "file").touch()
    found = await examined(f"sqlite:///{tmp_path}/file/queue.db")
    assert found["queue"].health is CheckStatus.BAD and "disk" in found


@pytest.mark.parametrize(
    ("free", "health"),
    [(10 << 20, CheckStatus.BAD), (500 << 20, CheckStatus.POOR), (2 << 30, CheckStatus.GOOD)],
)
async def test_a_disk_is_judged_by_what_is_free(tmp_path, monkeypatch, free, health):
    monkeypatch.setattr("shutil.disk_usage", lambda place: type("Usage", (), {"free": free}))
    assert (await examined(f"sqlite:///{tmp_path}/queue.db"))["disk"].health is health


def test_a_table_must_have_every_partition():
    assert partitions_complete({"a": 1, "b": 2}, {"a", "b"}, "r").health is CheckStatus.GOOD
    found = partitions_complete({"a": 1}, {"a", "b"}, "r")
    assert found.health is CheckStatus.BAD and "'b'" in found.says
