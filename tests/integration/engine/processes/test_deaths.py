"""Steps that crash, hang or block their process, and workers that are killed: each costs one task only."""

import asyncio
import os
import signal
from collections import Counter
from datetime import timedelta

import pytest

from shoal.fleet import job as job_module
from shoal.fleet.run.pool import MAX_RESTARTS
from shoal.worker.process import dead_worker
from shoal.worker.process.supervisor import WorkerSupervisor
from shoal.worker.slots import CONCURRENCY
from tests.cases import long
from tests.integration.engine.origin import Answer

SHORT = timedelta(seconds=1)


def scraper(trouble, *, settings="", kind="async def"):
    """Return a scraper whose step gets into trouble on the pages called /bad…"""
    return f"""
    import asyncio, os, re, signal, time

    trouble = Scraper("trouble", rate=None, robots=False, retries=1, {settings})

    @trouble.step
    {kind} page(page: Page):
        if "/bad" in page.url:
            {trouble}
        yield {{"url": page.url}}
    """


def pages(origin, good=40, bad=2):
    urls = [f"{origin.url}/good{number}" for number in range(good)]
    return [*urls[: good // 2], *(f"{origin.url}/bad{number}" for number in range(bad)), *urls[good // 2 :]]


async def outcome(bench, summary):
    """Return the good pages that gave an item, and the dead letters by their path."""
    items = Counter(item["url"].rpartition("/")[2] for item in await bench.items(summary.run.id))
    letters = {
        letter.task.url.rpartition("/")[2]: letter.error for letter in await bench.dead(summary.run.id)
    }
    return items, letters


@pytest.mark.parametrize(
    ("trouble", "word", "kind"),
    [
        ("os.kill(os.getpid(), signal.SIGKILL)", "SIGKILL", "async def"),
        *long(("os._exit(3)", "exit code 3", "def")),
    ],
)
async def test_a_step_that_ends_its_process_costs_its_own_task_and_no_other(
    bench, origin, trouble, word, kind
):
    summary = await bench.run(scraper(trouble, kind=kind), pages(origin))
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(40)})
    assert set(letters) == {"bad0", "bad1"}
    assert all(word in error for error in letters.values())


async def test_a_process_that_a_step_has_forked_does_not_hide_the_death_of_its_worker(bench, origin):
    child = bench.folder / "child"
    leave = f"""
            child = os.fork()
            if not child:
                signal.alarm(120)
                signal.pause()
            open({str(child)!r}, "w").write(str(child))
            os.kill(os.getpid(), signal.SIGKILL)"""
    try:
        async with asyncio.timeout(30):
            summary = await bench.run(scraper(leave).replace("retries=1", "retries=0"), pages(origin, bad=1))
    finally:
        os.kill(int(child.read_text()), signal.SIGKILL)
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(40)})
    assert set(letters) == {"bad0"} and "SIGKILL" in letters["bad0"]


async def test_a_step_that_takes_too_much_memory_costs_its_own_task_and_no_other(bench, origin, monkeypatch):
    monkeypatch.setattr(dead_worker, "MEMORY_BESIDE_PAGES", 400 << 20)
    monkeypatch.setattr(dead_worker, "MEMORY_PER_PAGE_BYTE", 0)
    grow = "taken = b'x' * (500 << 20); time.sleep(60)"
    summary = await bench.run(
        scraper(grow, settings="lease='30s'").replace("retries=1", "retries=4"), pages(origin, bad=1)
    )
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(40)})
    assert set(letters) == {"bad0"} and origin.visits["/bad0"] == 2
    assert (
        "step 'page' was running when its worker was killed, because it took more than 400 MB"
        in letters["bad0"]
    )


@pytest.mark.long
@pytest.mark.timeout(260)
async def test_of_many_running_steps_only_those_whose_memory_grows_become_dead_letters(
    bench, origin, monkeypatch
):
    monkeypatch.setattr(dead_worker, "MEMORY_BESIDE_PAGES", 400 << 20)
    monkeypatch.setattr(dead_worker, "MEMORY_PER_PAGE_BYTE", 0)
    code = scraper(
        """taken = []
            for _ in range(100):
                taken.append(b"x" * (5 << 20))
                time.sleep(0.02)
            time.sleep(60)
        time.sleep(3)""",
        kind="def",
    )
    async with asyncio.timeout(240):
        summary = await bench.run(code, pages(origin, good=16), workers=2)
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(16)})
    assert set(letters) == {"bad0", "bad1"}
    assert all("it took more than 400 MB" in error for error in letters.values())


@pytest.mark.parametrize("kind", ["async def", *long("def")])
async def test_an_exception_that_is_meant_to_end_a_program_fails_the_task_and_nothing_else(
    bench, origin, kind
):
    one_of = "raise (SystemExit(4), asyncio.CancelledError, GeneratorExit)[int(page.url[-1])]"
    async with asyncio.timeout(60):
        summary = await bench.run(scraper(one_of, kind=kind), pages(origin, good=6, bad=3))
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(6)})
    assert set(letters) == {"bad0", "bad1", "bad2"}
    assert all("StepEnded" in error for error in letters.values())
    assert origin.visits["/bad0"] == 2  # retries=1


HOLDS_THE_LOCK = r"re.match(r'(a+)+$', 'a' * 60 + 'b')"  # of the interpreter


@pytest.mark.parametrize(
    ("trouble", "kind"),
    [
        (HOLDS_THE_LOCK, "def"),
        *long(("time.sleep(1000)", "async def"), ("time.sleep(1000)", "def")),
    ],
)
async def test_a_step_that_hangs_is_given_up_at_its_deadline(bench, origin, trouble, kind):
    async with asyncio.timeout(60):
        summary = await bench.run(scraper(trouble, settings="lease='1s'", kind=kind), pages(origin, bad=1))
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(40)})
    assert set(letters) == {"bad0"}
    assert "timed out after 1 s" in letters["bad0"]


BLOCKING = scraper("time.sleep(4)", settings="lease='30s'")


@pytest.mark.long
async def test_a_step_that_blocks_for_longer_than_the_lease_keeps_it(bench, origin, monkeypatch):
    monkeypatch.setattr(job_module, "LEASE", SHORT)
    summary = await bench.run(BLOCKING, pages(origin, good=4, bad=1), workers=2)
    assert summary.snapshot.stats.completed == 5
    assert summary.ending.tally.stale == 0
    assert set(origin.visits.values()) == {1}


@pytest.mark.long
async def test_without_its_supervisor_s_extensions_it_would_lose_it(bench, origin, monkeypatch):
    async def asleep(self):
        await asyncio.sleep(1000)

    monkeypatch.setattr(WorkerSupervisor, "_renew_leases", asleep)
    monkeypatch.setattr(job_module, "LEASE", SHORT)
    await bench.run(BLOCKING, pages(origin, good=4, bad=1), workers=2)
    assert max(origin.visits.values()) > 1


async def test_killed_workers_are_replaced_and_nothing_is_lost_or_stored_twice(bench, origin):
    origin.answer = lambda path: Answer(after=0.02)
    killed = []

    def kill_one(snapshot, pool):
        if snapshot.stats.remaining and pool.pids and len(killed) < 4:
            os.kill(pool.pids[0], signal.SIGKILL)
            killed.append(pool.in_hand)

    bench.witness.on_saw = kill_one
    urls = [f"{origin.url}/good{number}" for number in range(900)]
    summary = await bench.run(scraper("pass"), urls, workers=2)
    items, letters = await outcome(bench, summary)
    assert len(killed) >= 2
    assert items == Counter({f"good{number}": 1 for number in range(900)}) and not letters
    # The supervisor hears of a claim a little later: a worker may have had as many again as it can handle.
    assert sum(origin.visits.values()) - 900 <= sum(killed) + CONCURRENCY


async def test_a_worker_that_cannot_start_is_given_up_with_its_last_words(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    code = """
    import os, sys
    if sys.argv[0] == "shoal.worker.process.main":
        print("no licence for this machine", flush=True)
        os._exit(7)
    dies = Scraper("dies", rate=None, robots=False)

    @dies.step
    async def page(page: Page):
        yield {"url": page.url}
    """
    summary = await bench.run(code, [f"{origin.url}/x"])
    assert summary.ending.failed
    assert "exit code 7" in summary.ending.failures[0]
    assert "no licence for this machine" in summary.ending.failures[0]
    assert summary.snapshot.stats.remaining == 1


@pytest.mark.long
@pytest.mark.timeout(400)  # on a busy machine a worker has time for a page or two, and the next has to start
async def test_workers_that_live_for_a_moment_and_settle_something_are_not_given_up(
    bench, origin, monkeypatch
):
    """A worker says twice a second how far it has come; these die before they have said it once."""
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    origin.answer = lambda path: Answer(after=0.02)
    code = """
    import os, signal, threading
    brief = Scraper("brief", rate=None, robots=False, per_host=1)
    begun = []

    @brief.step
    async def page(page: Page):
        if not begun:  # not before: on a busy machine the first page takes its time
            begun.append(1)
            threading.Timer(0.25, os.kill, (os.getpid(), signal.SIGKILL)).start()
        yield {"url": page.url}
    """
    summary = await bench.run(code, [f"{origin.url}/{number}" for number in range(100)])
    items, letters = await outcome(bench, summary)
    assert items == Counter({str(number): 1 for number in range(100)}) and not letters
    deaths = [line for line in bench.witness.said_lines if "starting another" in line]
    assert len(deaths) > MAX_RESTARTS


async def test_a_step_that_kills_every_worker_is_given_up_after_five_tasks_and_buries_no_run(
    bench, origin, monkeypatch
):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    code = scraper("os.abort()").replace("retries=1", "retries=9")
    urls = [f"{origin.url}/bad{number}" for number in range(60)]
    async with asyncio.timeout(120):
        summary = await bench.run(code, urls, workers=2, concurrency=1)
    assert summary.ending.failed
    assert "CrashLoop: " in summary.ending.failures[-1] and "SIGABRT" in summary.ending.failures[-1]
    assert len(bench.witness.said_lines) < 30
    stats = summary.snapshot.stats
    assert (stats.dead, stats.remaining) == (0, 60)


@pytest.mark.long
async def test_tasks_that_kill_their_workers_among_good_ones_stop_nobody(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    mixed = [f"{origin.url}/{'bad' if number % 5 == 4 else 'good'}{number}" for number in range(30)]
    code = scraper("os.abort()").replace("retries=1", "retries=0")
    async with asyncio.timeout(90):
        summary = await bench.run(code, mixed, concurrency=1)
    items, letters = await outcome(bench, summary)
    assert len(items) == 24 and len(letters) == 6 and not summary.ending.failures


async def test_the_first_stop_finishes_what_is_in_hand(bench, origin):
    origin.answer = lambda path: Answer(after=0.3)

    def stop(snapshot, pool):
        if snapshot.stats.leased and origin.visits and not stopped:
            stopped.append(pool.stop())

    stopped = []
    bench.witness.on_saw = stop
    urls = [f"{origin.url}/good{number}" for number in range(3_000)]
    summary = await bench.run(scraper("pass"), urls, concurrency=10)
    stats = summary.snapshot.stats
    assert summary.ending.reasons == ["stopped"]
    assert stats.completed == sum(origin.visits.values()) > 0
    assert stats.leased == 0 and stats.remaining == 3_000 - stats.completed


async def test_the_second_stop_hands_everything_back_at_once_and_charges_nothing(bench, origin):
    origin.answer = lambda path: Answer(after=30)

    def stop(snapshot, pool):
        if origin.visits:
            pool.stop()
            pool.stop()

    bench.witness.on_saw = stop
    async with asyncio.timeout(20):
        summary = await bench.run(scraper("pass"), [f"{origin.url}/good0"], run_id="stopped")
    stats = summary.snapshot.stats
    assert (stats.leased, stats.pending, stats.dead) == (0, 1, 0)
    bench.witness.on_saw, origin.answer = None, lambda path: Answer(status=500)
    await bench.run(scraper("pass"), [], run_id="stopped", resume=True)
    (letter,) = await bench.dead("stopped")
    assert letter.attempts == 2  # both of them its own


async def test_at_most_once_a_page_is_requested_once_whichever_process_is_killed(bench, origin):
    origin.answer = lambda path: Answer(after=0.3)
    killed = []

    def kill_all(snapshot, pool):
        if origin.visits and pool.pids and len(killed) < 2:
            killed.append(pool.pids[0])
            os.kill(pool.pids[0], signal.SIGKILL)

    bench.witness.on_saw = kill_all
    urls = [f"{origin.url}/good{number}" for number in range(200)]
    code = scraper("pass").replace("retries=1, ", 'delivery="at_most_once", ')
    summary = await bench.run(code, urls, concurrency=20)
    items, letters = await outcome(bench, summary)
    assert killed and set(origin.visits.values()) == {1}
    assert len(items) + len(letters) == 200 and set(items.values()) == {1}
    assert letters and all("WorkerDied" in error for error in letters.values())


def crashes_while_it_fetches(trouble, **changes):
    """Return a scraper whose pages called /bad… end the process before any step runs."""
    code = scraper("pass", **changes)
    return f"""
    import os, signal, time
    from shoal.fetch.http.client import RedirectingClient

    fetch = RedirectingClient.fetch

    async def crash(self, request):
        response = await fetch(self, request)
        if "/bad" in request.url:
            {trouble}
        return response

    RedirectingClient.fetch = crash
    {code}"""


async def test_a_response_that_crashes_the_http_client_costs_its_own_task_and_no_other(
    bench, origin, monkeypatch
):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    async with asyncio.timeout(100):
        summary = await bench.run(crashes_while_it_fetches("os.abort()"), pages(origin, good=80, bad=1))
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(80)})
    assert set(letters) == {"bad0"} and not summary.ending.failures
    assert "SIGABRT while it had no other task in progress" in letters["bad0"]
    assert any("tasks were in progress: they run" in line for line in bench.witness.said_lines)


async def test_a_step_that_leaves_what_ends_the_process_after_its_task_costs_its_own_task_and_no_other(
    bench, origin, monkeypatch
):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    # As a thread that the step has left may: after the outcome is there, and before it is settled.
    code = f"""
    import os
    from shoal.core.model import Done
    from shoal.worker.settlements import Settlements

    put = Settlements.put

    def put_and_crash(self, outcome):
        put(self, outcome)
        if isinstance(outcome, Done) and "/bad" in outcome.lease.task.url:
            os.abort()

    Settlements.put = put_and_crash
    {scraper("pass")}"""
    async with asyncio.timeout(100):
        summary = await bench.run(code, pages(origin, good=20, bad=1))
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(20)})
    assert set(letters) == {"bad0"} and not summary.ending.failures
    assert "its step has left a thread or an object that does" in letters["bad0"]


@pytest.mark.long
async def test_a_response_that_freezes_the_http_client_costs_its_own_task_and_no_other(
    bench, origin, monkeypatch
):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    code = crashes_while_it_fetches("time.sleep(1000)", settings="lease='1s'").replace(
        "retries=1", "retries=0"
    )
    async with asyncio.timeout(100):
        summary = await bench.run(code, pages(origin, good=10, bad=1))
    items, letters = await outcome(bench, summary)
    assert items == Counter({f"good{number}": 1 for number in range(10)})
    assert set(letters) == {"bad0"} and "frozen" in letters["bad0"]


@pytest.mark.long
async def test_an_http_client_that_crashes_on_every_response_buries_no_run(bench, origin, monkeypatch):
    monkeypatch.setattr("shoal.fleet.run.pool.MIN_RESTART_DELAY_SECONDS", 0.01)
    code = crashes_while_it_fetches("os.abort()").replace("retries=1", "retries=9")
    async with asyncio.timeout(100):
        summary = await bench.run(code, pages(origin, good=0, bad=60))
    assert summary.ending.failed and "CrashLoop: " in summary.ending.failures[-1]
    assert (summary.snapshot.stats.dead, summary.snapshot.stats.remaining) == (0, 60)
