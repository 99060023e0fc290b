"""A run is opened with the settings it was made with; what is given again changes them, or is refused."""

import pytest
from msgspec.structs import replace

from shoal.cli.options.workers import read_change, read_job
from shoal.core.errors import InvalidSetting, RunConflict
from shoal.core.model import Done, Task
from shoal.fleet.command_hints import command_to_resume
from shoal.fleet.run import settings as module
from shoal.fleet.run.lifecycle import purge
from shoal.fleet.run.open_run import open_job
from shoal.fleet.run.settings import change_settings, list_settings
from shoal.queue.open import open_queue
from shoal.worker.page_limit import PageLimit, raise_page_limit
from shoal.worker.recrawl import topic
from shoal.worker.run_settings import LIVE, read_note

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate="{rate}", pause="8-20s")

@pages.step
async def page(page: Page):
    yield {{"url": page.url}}
"""


@pytest.fixture
async def queue(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(tmp_path, "1/s")
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        yield queue


def write(folder, rate):
    (folder / "pages.py").write_text(SCRAPER.format(rate=rate) + "\n" * len(rate))


def job(*changes, **more):
    return read_job("pages.py", queue="sqlite:///queue.db", changes=list(changes), **more)


async def opened_run(queue, *changes, **more):
    opened = await open_job(queue, job(*changes, **more))
    await queue.enqueue(opened.run.id, [Task(url="https://a.example/")])
    return opened


async def test_a_resumed_run_has_all_that_was_given_for_it(queue):
    first = await opened_run(
        queue, "rate=5/s", "timeout=9s", "fetch=browser", urls=["http://127.0.0.1:81/", "https://a.test/"]
    )
    assert first.is_new and not first.notices
    again = await open_job(queue, job(), resume=True)
    assert (again.run.id, again.is_new) == (first.run.id, False)
    assert again.job.scraper.settings == first.job.scraper.settings
    assert again.job.overrides == first.job.overrides
    assert " ".join(again.notices) == (
        "Settings of the run: rate=5/s, timeout=9s, fetch=browser, allow_private=127.0.0.1:81."
    )


async def test_a_resumed_run_is_compared_with_those_of_the_same_seeds(queue):
    first = await open_job(queue, job(), seeds="mark of its seeds")
    await queue.enqueue(first.run.id, [Task(url="https://a.example/")])
    await open_job(queue, job("rate=2/s"), resume=True)
    assert (await read_note(queue, first.run.id)).settings.seeds == "mark of its seeds"


@pytest.mark.parametrize("again", ["newest", "auto"])
async def test_the_same_command_recrawls_the_first_night_and_after_an_interrupted_one(queue, again):
    nightly = ("recrawl=yes", f"again={again}")
    if again == "newest":
        with pytest.raises(InvalidSetting, match="--again auto"):
            await opened_run(queue, *nightly)
    first = await opened_run(queue, "recrawl=yes", *(["again=auto"] if again == "auto" else []))
    assert first.job.scraper.settings.again is None
    await queue.write_notes(topic("pages", "pages", first.run.id), {"1": b"its pages"})
    second = await open_job(queue, job(*nightly))
    await queue.enqueue(second.run.id, [Task(url="https://a.example/")])
    resumed = await open_job(queue, job(*nightly), run_id=second.run.id, resume=True)
    assert resumed.run.id == second.run.id
    assert resumed.job.scraper.settings.again == first.run.id


async def test_what_is_given_again_is_changed_for_the_run(queue):
    run = (await opened_run(queue, "rate=5/s", "max_pages=5")).run
    again = await open_job(queue, job("rate=50/s", "max_pages=5", "engine=aiohttp"), resume=True)
    assert (
        " ".join(again.notices)
        == "Settings of the run: max_pages=5. Changed for the run: rate=50/s, engine=aiohttp."
    )
    assert again.run.settings.host_delay < run.settings.host_delay
    later = await open_job(queue, job(), resume=True)
    assert (later.job.scraper.settings.engine, later.run.settings) == ("aiohttp", again.run.settings)


async def test_a_folder_that_is_typed_again_as_it_was_is_no_change(queue):
    first = await opened_run(queue, "files=images")
    again = await open_job(queue, job("files=images"), resume=True)
    assert "Changed" not in " ".join(again.notices) and again.run.id == first.run.id
    other = await open_job(queue, job("files=pictures"), resume=True)
    assert " ".join(other.notices).endswith("Changed for the run: files=pictures.")


async def test_a_worker_that_joins_changes_what_all_follow_and_keeps_the_rest_to_itself(queue):
    run = (await opened_run(queue, "rate=5/s")).run
    joined = await open_job(
        queue, replace(job("rate=1/s", "engine=aiohttp"), joins=True), run_id=run.id, resume=True
    )
    assert (
        " ".join(joined.notices) == "Changed for the run: rate=1/s. For these workers only: engine=aiohttp."
    )
    assert joined.job.scraper.settings.engine == "aiohttp" and joined.job.overrides["engine"] == "aiohttp"
    other = await open_job(queue, job(), resume=True)
    assert other.job.scraper.settings.engine == "wreq"
    assert other.job.scraper.settings.delay.total_seconds() == 1


async def test_a_setting_of_what_is_queued_already_is_refused_by_name(queue):
    run = (await opened_run(queue, "ttl=1h")).run
    with pytest.raises(InvalidSetting, match=f"ttl of run {run.id} cannot be changed: it counts from"):
        await open_job(queue, job("ttl=2h"), resume=True)
    assert (await open_job(queue, job("ttl=60m"), resume=True)).run.id == run.id, "it is the same"


async def test_a_secret_has_to_be_given_again(queue):
    run = (await opened_run(queue, "proxies=http://me:hush@p.test:80")).run
    assert b"hush" not in (await queue.notes("run settings"))[run.id].value
    with pytest.raises(InvalidSetting, match="Give it again: --set proxies="):
        await open_job(queue, job(), resume=True)
    again = await open_job(queue, job("proxies=http://me:hush@p.test:80"), resume=True)
    assert again.job.scraper.settings.proxies
    assert (await read_note(queue, run.id)).settings.withheld == ["proxies"]


async def test_a_changed_scraper_file_counts_unless_the_run_has_its_own(queue, tmp_path):
    await opened_run(queue)
    write(tmp_path, "20/s")
    again = await open_job(queue, job(), resume=True)
    assert again.run.settings.host_delay.total_seconds() == pytest.approx(0.05, abs=0.01)
    await change_settings(queue, again.run.id, {"rate": "2/s"})
    later = await open_job(queue, job(), resume=True)
    assert later.run.settings.host_delay.total_seconds() == pytest.approx(0.5, abs=0.02)


async def test_a_cancelled_or_foreign_run_is_not_changed(queue, tmp_path):
    run = (await opened_run(queue)).run
    await queue.cancel(run.id)
    for refused in (
        open_job(queue, job("rate=9/s"), run_id=run.id),
        change_settings(queue, run.id, {"rate": 1}),
    ):
        with pytest.raises(RunConflict, match="was cancelled"):
            await refused
    other = await queue.start_run("others")
    with pytest.raises(RunConflict, match="belongs to scraper 'others'"):
        await open_job(queue, job(), run_id=other.id, resume=True)


async def test_a_run_at_its_page_limit_goes_on_with_a_larger_one(queue):
    run = (await opened_run(queue, "max_pages=5")).run
    await queue.finish(run.id, "max_pages=5 reached")
    ended = await queue.run(run.id)
    assert (await command_to_resume(queue, "sqlite:///shoal.db", ended)).endswith("--set max_pages=5")
    assert (await change_settings(queue, run.id, {"max_pages": 50})).state == "running"
    rows = {row.setting: (row.value, row.source, row.change) for row in await list_settings(queue, run.id)}
    assert rows["max_pages"] == ("50", "run", "now")
    assert rows["rate"] == ("1/s", "scraper", "now")


async def test_a_run_that_ends_at_its_page_limit_while_that_is_raised_goes_on(queue, monkeypatch):
    run = (await opened_run(queue, "max_pages=5")).run

    async def end_and_raise(queue, run_id, most):
        await queue.finish(run_id, "max_pages=5 reached")
        await raise_page_limit(queue, run_id, most)

    monkeypatch.setattr(module, "raise_page_limit", end_and_raise)
    assert (await change_settings(queue, run.id, {"max_pages": 50})).state == "running"


async def test_a_page_limit_lowered_in_the_scraper_file_counts_when_its_run_is_resumed(queue, tmp_path):
    run = (await opened_run(queue)).run
    await raise_page_limit(queue, run.id, 50)
    write(tmp_path, '1/s", max_pages=1, timeout="9s')
    await open_job(queue, job(), resume=True)
    (lease,) = (await queue.claim("worker", run_id=run.id)).leases
    await queue.settle([Done(lease, follow=[Task(url="https://a.example/2")])])
    assert await PageLimit(queue, run.id, 1).end_if_used()
    assert (await queue.run(run.id)).reason == "max_pages=1 reached"


async def test_every_setting_that_may_change_is_listed_with_units(queue):
    run = (await opened_run(queue, "rate=30/min")).run
    await change_settings(queue, run.id, {"retry": {"delay": "60s"}})
    rows = {row.setting: (row.value, row.source) for row in await list_settings(queue, run.id)}
    assert set(LIVE) <= set(rows)
    assert (rows["rate"], rows["delay"]) == (("30/min", "run"), ("2s", "run"))
    assert rows["retry"] == ('{"delay":"60s"}', "run")
    assert rows["allow_private"] == ("none", "scraper")
    assert rows["pause"] == ("8s-20s", "scraper")


@pytest.mark.parametrize("none", [None, [], ""])
async def test_private_hosts_of_a_run_are_added_and_taking_them_back_is_refused(queue, none):
    run = (await opened_run(queue)).run
    for host in ("10.0.0.1", "10.0.0.2"):
        await change_settings(queue, run.id, {"allow_private": host})
    with pytest.raises(InvalidSetting, match="can only be extended"):
        await change_settings(queue, run.id, {"allow_private": none})
    rows = {row.setting: row.value for row in await list_settings(queue, run.id)}
    assert rows["allow_private"] == '["10.0.0.1","10.0.0.2"]'


async def test_a_list_is_shown_as_it_is_typed_and_an_empty_one_as_none(queue):
    run = (await opened_run(queue)).run

    async def shown(setting):
        return next(row.value for row in await list_settings(queue, run.id) if row.setting == setting)

    assert await shown("statuses") == "none"
    for typed, value, text in (
        ("statuses=404", 404, "404"),
        ("statuses=404,410", "404,410", "404,410"),
        ("statuses=[404, 410]", [404, 410], "[404,410]"),
        ("skip=*/login*", "*/login*", "*/login*"),
        ('skip=["*/login*", "*/cart*"]', ["*/login*", "*/cart*"], '["*/login*","*/cart*"]'),
        ("statuses=none", None, "none"),
    ):
        key, read = read_change(typed)
        assert read == value
        await change_settings(queue, run.id, {key: read})
        assert await shown(key) == text
        # What is shown can be typed.
        await change_settings(queue, run.id, dict([read_change(f"{key}={text}")]))
    assert await shown("statuses") == "none"


async def test_a_purged_run_is_forgotten(queue):
    run = (await opened_run(queue, "rate=5/s")).run
    await purge(queue, run.id)
    assert (await read_note(queue, run.id)).stamp is None
