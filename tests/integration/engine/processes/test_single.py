"""Single mode: one process at a time works on a scraper, by whatever way it is started."""

import asyncio
import socket
from datetime import timedelta

import pytest

import shoal
from shoal.cli.exits import Exit
from shoal.core.errors import DutyFailed, QueueUnavailable, ScraperBusy
from shoal.fleet import lock as single
from shoal.fleet.cluster_roles import WorkerHost
from shoal.fleet.lock import FILLING, TOPIC, WORKING, ScraperLock
from shoal.queue.open import open_queue
from tests.integration.engine.faults import Fault, FaultyQueue
from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import start, typed

SCRAPER = """
from shoal import Page, Scraper

pages = Scraper("pages", rate=None, robots=False, retries=0, allow_private="127.0.0.0/8")

@pages.step
async def page(page: Page):
    yield {"url": page.url}
"""
TOML = """
[scrapers.pages]
module = "pages.py:pages"
mode = "single"
"""
NOBODY = "elsewhere-1-abcd"


@pytest.fixture
async def queue(bench):
    async with open_queue(bench.queue_url) as queue:  # the lock is a note, which every queue keeps alike
        yield queue


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "pages.py").write_text(SCRAPER)
    (tmp_path / "shoal.toml").write_text(TOML)
    return tmp_path


@pytest.fixture
async def app(folder):
    async with shoal.connect(f"sqlite:///{folder}/shoal.db", folder=folder) as app:
        yield app


async def test_of_two_that_start_at_once_one_goes_on_and_the_other_learns_its_name(queue):
    locks = [ScraperLock(queue, "pages", run_id="r1"), ScraperLock(queue, "pages")]
    came = await asyncio.gather(*(lock.__aenter__() for lock in locks), return_exceptions=True)
    (refused,) = [one for one in came if isinstance(one, ScraperBusy)]
    (holder,) = [one for one in came if isinstance(one, ScraperLock)]
    assert refused.holder.startswith(f"{socket.gethostname()}-")
    await holder.__aexit__(None, None, None)
    async with ScraperLock(queue, "pages"), ScraperLock(queue, "others"):
        pass
    assert await queue.notes(TOPIC) == {}


async def test_a_scraper_may_be_filled_by_one_process_and_worked_on_by_another(queue):
    async with ScraperLock(queue, "pages", [FILLING]), ScraperLock(queue, "pages", [WORKING]):
        with pytest.raises(ScraperBusy):
            await ScraperLock(queue, "pages").__aenter__()


async def test_what_a_refused_one_had_taken_already_is_given_back(queue):
    async with ScraperLock(queue, "pages", [WORKING]):
        with pytest.raises(ScraperBusy):
            await ScraperLock(queue, "pages", [FILLING, WORKING]).__aenter__()
        async with ScraperLock(queue, "pages", [FILLING]):
            pass


async def test_a_process_that_was_silent_for_too_long_learns_that_another_has_its_lock(queue, monkeypatch):
    monkeypatch.setattr(single, "RENEW_INTERVAL", timedelta(seconds=0.05))
    lost: asyncio.Queue[str] = asyncio.Queue()
    lock = ScraperLock(queue, "pages", [WORKING])
    lock.when_lost(lost.put_nowait)
    async with lock:
        other = b'{"holder":"elsewhere-1-abcd","run_id":"r2"}'
        await queue.write_notes(TOPIC, {f"{WORKING} pages": other})
        why = await asyncio.wait_for(lost.get(), 10)
    assert "Another process has taken over scraper 'pages': elsewhere-1-abcd for run r2." in why
    with pytest.raises(ScraperBusy, match=r"elsewhere-1-abcd is working on run r2. .*shoal watch r2"):
        await ScraperLock(queue, "pages", [WORKING]).__aenter__()


@pytest.mark.parametrize("seconds", [0.0, 0.2], ids=["at once", "slowly"])
async def test_a_queue_that_was_away_for_a_while_does_not_make_another_process_of_this_one(
    queue, monkeypatch, seconds
):
    monkeypatch.setattr(single, "RENEW_INTERVAL", timedelta(seconds=0.02))
    monkeypatch.setattr(single, "LOCK_TTL", timedelta(seconds=0.1))
    faulty, lost = FaultyQueue(queue), []
    lock = ScraperLock(faulty, "pages", [WORKING])
    lock.when_lost(lost.append)

    async def slow(*args, **options):
        await asyncio.sleep(seconds)

    async with lock:
        faulty.faults["swap_note"] = Fault(lambda: QueueUnavailable("db", "it is away"), 5)
        faulty.before["swap_note"] = slow
        async with asyncio.timeout(10):
            while faulty.faults["swap_note"].times or faulty.calls["swap_note"] < 12:
                await lock.name_run("r1")  # while it is renewed in the background, too
                await asyncio.sleep(0.01)
    assert lost == []
    assert await queue.notes(TOPIC) == {}


async def test_a_renewal_that_fails_is_said_by_its_name_and_no_other_process_is_blamed(queue, monkeypatch):
    monkeypatch.setattr(single, "RENEW_INTERVAL", timedelta(seconds=0.02))
    faulty = FaultyQueue(queue)
    lost: asyncio.Queue[str] = asyncio.Queue()
    lock = ScraperLock(faulty, "pages", [WORKING])
    lock.when_lost(lost.put_nowait)
    with pytest.raises(DutyFailed, match="TypeError: no such thing"):
        async with lock:
            faulty.faults["swap_note"] = Fault(lambda: TypeError("no such thing"), 1)
            why = await asyncio.wait_for(lost.get(), 10)
    assert why == "The lock of scraper 'pages' is lost: Renewing it failed: TypeError: no such thing."


async def held(site):
    async with asyncio.timeout(30):
        while not site.visits:
            await asyncio.sleep(0.02)


async def test_nobody_works_beside_a_scraper_in_single_mode_however_it_is_started(app, folder, origin):
    origin.answer = lambda path: Answer(after=60)
    run = await app.start("pages", urls=[f"{origin.url}/slow"], workers=1)
    await held(origin)
    before = await app.queue.runs()
    with pytest.raises(ScraperBusy, match=run.id):
        await app.start("pages", urls=[f"{origin.url}/3"], workers=1)
    assert await app.queue.runs() == before  # a refused start makes nothing
    worked = await typed("work", "pages", "--run", run.id, folder=folder)
    assert (worked.code, socket.gethostname() in worked.err) == (Exit.BUSY, True)
    served = await typed(
        "start", "--role", "worker", "--run", run.id, "--queue", app.queue_url, folder=folder
    )
    assert served.code == Exit.BUSY
    ran = await typed("run", "pages", f"--url={origin.url}/4", folder=folder)
    assert ran.code == Exit.BUSY
    assert set(origin.visits) == {"/slow"}


async def test_a_worker_of_a_cluster_leaves_a_held_scraper_alone_and_takes_it_when_it_is_free(
    app, folder, origin
):
    run = await app.start("pages", urls=[f"{origin.url}/1"], workers=0)
    said = []

    class Heard:
        def on_join(self, run): ...
        def on_progress(self, snapshot): ...
        def on_message(self, text):
            said.append(text)

    host = WorkerHost(app.queue, [app.job("pages", workers=1)], Heard())
    async with ScraperLock(app.queue, "pages", [WORKING], run_id="other"):
        serving = asyncio.create_task(host.serve())
        async with asyncio.timeout(30):
            while not said:
                await asyncio.sleep(0.02)
        assert "other" in said[0] and not origin.visits
    async with asyncio.timeout(60):
        while (await app.queue.stats(run.id)).remaining:
            await asyncio.sleep(0.05)
    host.stop()
    await serving


@pytest.mark.long
async def test_where_nobody_asked_for_single_mode_others_may_join_a_run(app, folder, origin):
    (folder / "shoal.toml").unlink()
    origin.answer = lambda path: Answer(after=8 if path == "/slow" else 0)
    first = await start(
        "run", "pages.py", f"--url={origin.url}/slow", "--run", "r1", "--concurrency=1", folder=folder
    )
    await held(origin)
    await app.queue.enqueue("r1", [shoal.Task(url=f"{origin.url}/2", step="page")])
    worker = await start("work", "pages.py", "--run", "r1", "--allow-private=127.0.0.0/8", folder=folder)
    async with asyncio.timeout(60):
        while (await app.queue.stats("r1")).completed < 1:
            await asyncio.sleep(0.05)
    assert "/2" in origin.visits
    for process in (worker, first):
        process.kill()
        await process.communicate()


async def test_a_late_check_finds_that_the_lock_was_lost(queue, monkeypatch):
    """Seeds are enqueued under the lock before there are workers to stop."""

    async def broken(self):
        raise TypeError("an unknown fault")

    monkeypatch.setattr("shoal.fleet.lock.RENEW_INTERVAL", timedelta(seconds=0.01))
    monkeypatch.setattr(ScraperLock, "_renew", broken)
    told = []
    with pytest.raises(DutyFailed, match="an unknown fault"):
        async with asyncio.timeout(30), ScraperLock(queue, "pages") as lock:
            await asyncio.wait([lock._renewal])
            await asyncio.sleep(0)
            lock.when_lost(told.append)
    assert len(told) == 1 and "is lost" in told[0]
