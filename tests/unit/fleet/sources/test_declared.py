"""The seeds that a scraper or its project declares, and when they are used."""

import pytest

from shoal.cli.options.workers import read_args, read_job
from shoal.core.errors import InvalidSetting
from shoal.fleet.cluster_roles import Role, scrapers_of
from shoal.fleet.project.file import Project
from shoal.fleet.run.feed import InvalidSeeds, open_feed
from shoal.fleet.sources.declared import declared_seeds, mark_seeding, run_being_seeded, seeds_left
from shoal.fleet.sources.names import read_seeds
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.open import open_queue

SCRAPERS = """
from shoal import Page, Scraper

own = Scraper("own", start=["http://localhost:8000/1", "https://example.com/2"])
none = Scraper("none")

@own.step
def listing(page: Page):
    yield {}

@none.step
def other(page: Page):
    yield {}
"""
PROJECT = """
[scrapers.own]
module = "shops.py:own"

[scrapers.none]
module = "shops.py:none"

[scrapers.listed]
module = "shops.py:own"

[scrapers.listed.seeds]
urls_file = "urls.txt"
axis = ["state=states.txt", "kind:a,b"]
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    (tmp_path / "shops.py").write_text(SCRAPERS)
    (tmp_path / "shoal.toml").write_text(PROJECT)
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    return Project.find(tmp_path / "below")


def job_of(name):
    return read_job(name, queue="sqlite:///queue.db")


def test_the_project_file_comes_before_the_scraper_and_its_paths_are_its_own(project, tmp_path):
    listed = declared_seeds(project, job_of("listed"))
    assert (listed.declared_in, listed.of_scraper) == ("shoal.toml", False)
    assert listed.file == f"{tmp_path}/urls.txt"
    assert list(listed.axes) == [f"state={tmp_path}/states.txt", "kind:a,b"]
    own = declared_seeds(project, job_of("own"))
    assert (own.declared_in, own.of_scraper) == ("shops.py", True)
    assert not declared_seeds(project, job_of("none"))


def test_a_private_host_that_is_written_down_as_a_seed_is_allowed(project):
    assert job_of("own").scraper.settings.allow_private == ("localhost:8000",)
    assert job_of("none").scraper.settings.allow_private == ()


def test_a_coordinator_takes_the_scrapers_that_have_seeds_here_or_in_their_file(project):
    assert [entry.name for entry in scrapers_of(project, Role.COORDINATOR, None)] == ["own", "listed"]


async def test_a_run_whose_seeds_were_interrupted_gets_them_again(project, tmp_path):
    job = job_of("own")
    seeds = declared_seeds(project, job)
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        run = await queue.start_run("own")
        assert await seeds_left(queue, run.id, seeds) == seeds  # it has no task at all
        async with open_feed(queue, job.scraper, seeds, project.routes, InvalidSeeds()) as feed:
            stream = aiter(feed.into(run))
            await queue.enqueue(run.id, [await anext(stream)])
            assert await run_being_seeded(queue, "own") == run.id
            assert await seeds_left(queue, run.id, seeds) == seeds
            await queue.enqueue(run.id, stream)
        assert await run_being_seeded(queue, "own") is None
        assert await seeds_left(queue, run.id, seeds) == Seeds()
        typed = Seeds(urls=["https://example.com/3"])
        assert await seeds_left(queue, run.id, typed) == typed


def test_typed_arguments_are_read_by_name():
    assert read_args(["a=1", "b=x=y", "a=2", "a=3", "c="]) == {"a": ["1", "2", "3"], "b": "x=y", "c": ""}
    with pytest.raises(InvalidSetting, match="-a takes NAME=VALUE"):
        read_args(["a"])


async def test_typed_sources_that_were_interrupted_are_read_again_from_wherever_it_is_resumed(
    tmp_path, monkeypatch
):
    axes, template = ["a=b.txt", "c:d"], "https://x.example/{a}/{c}"
    typed = read_seeds({"urls_file": "urls.txt", "axis": axes, "combine": template})
    monkeypatch.chdir(tmp_path)
    async with open_queue(f"sqlite:///{tmp_path}/a.db") as queue:
        run = await queue.start_run("own")
        await mark_seeding(queue, run.id, typed)
        monkeypatch.chdir("/")
        left = await seeds_left(queue, run.id, Seeds())
        assert (left.file, left.template) == (str(tmp_path / "urls.txt"), typed.template)
        assert list(left.axes) == [f"a={tmp_path}/b.txt", "c:d"]
        other = read_seeds({"urls_file": "other.txt"})
        assert await seeds_left(queue, run.id, other) is other


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"urls_file": "-"}, "standard input"),
        ({"feed": "https://ann:pass@example.com/feed"}, "a source whose address has a password"),
    ],
)
async def test_what_cannot_be_read_again_is_said_once_and_no_password_is_stored(
    given, words, tmp_path, caplog
):
    async with open_queue(f"sqlite:///{tmp_path}/a.db") as queue:
        run = await queue.start_run("own")
        await mark_seeding(queue, run.id, read_seeds(given))
        assert not await seeds_left(queue, run.id, Seeds())
        assert f"Reading {words} was interrupted" in caplog.text
        assert await run_being_seeded(queue, "own") is None
    assert b"ann:pass" not in (tmp_path / "a.db").read_bytes()
