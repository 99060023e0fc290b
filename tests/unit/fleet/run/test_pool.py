"""When a pool replaces a worker, and when it gives up; no process is started."""

import asyncio

import pytest

from shoal import Scraper
from shoal.fleet.job import Job
from shoal.fleet.run import pool as module
from shoal.fleet.run.pool import (
    MAX_RESTART_DELAY_SECONDS,
    MAX_RESTARTS,
    MIN_RESTART_DELAY_SECONDS,
    PoolExit,
    RunObserver,
    WorkerPool,
)
from shoal.worker.ipc.protocol import ExitReason
from shoal.worker.process.supervisor import WorkerExit
from shoal.worker.run_settings import SettingsNote, StoredSettings
from tests.unit.builders import make_run

RUN = make_run(scraper="s")
PAGES = Scraper("s", retries=2)
PAGES.step(fetch=None, name="page")(lambda task: [])
JOB = Job(scraper=PAGES, name="s", reference="s.py", queue_url="sqlite:///")
DEAD = WorkerExit(ExitReason.DIED, "was ended by SIGKILL")


class Slots(WorkerPool):
    """A pool whose workers end as the test says, and whose waits take no time."""

    def __init__(self, *exits, count=1):
        self.said, self.waits, self.exits, self.started = [], [], list(exits), 0
        observer = RunObserver()
        observer.on_message = self.said.append
        super().__init__(None, JOB, RUN, lock=None, observer=observer, count=count)

    async def _run_worker(self, fork_server, number):
        self.started += 1
        last = self.exits.pop(0)
        self._breaker.record_death(last.killers)
        return last

    async def _wait(self, seconds):
        self.waits.append(seconds)

    async def end(self):
        ending = PoolExit()
        await self._keep_slot_running(None, 0, ending)
        return ending


async def test_workers_that_keep_dying_are_replaced_later_and_later_and_then_no_more():
    pool = Slots(*[DEAD] * (MAX_RESTARTS + 1))
    ending = await pool.end()
    assert pool.started == MAX_RESTARTS + 1 and ending.failed
    delays = pool.waits[1:]  # the first is for its staggered start
    assert delays[0] == MIN_RESTART_DELAY_SECONDS and delays == sorted(delays)
    assert delays[-1] <= MAX_RESTART_DELAY_SECONDS


async def test_a_worker_that_settled_a_task_resets_the_count():
    useful = WorkerExit(ExitReason.DIED, "vanished", settled=1)
    pool = Slots(*[DEAD] * MAX_RESTARTS, useful, *[DEAD] * (MAX_RESTARTS - 1), WorkerExit(ExitReason.DRAINED))
    assert (await pool.end()).reasons == [ExitReason.DRAINED]


async def test_the_first_task_that_kills_its_worker_causes_no_delay():
    killed = WorkerExit(ExitReason.DIED, "vanished", blamed=frozenset("t"), killers=frozenset("t"))
    pool = Slots(killed, WorkerExit(ExitReason.DRAINED))
    await pool.end()
    assert pool.waits[1:] == [0.0]


async def test_a_pool_that_is_stopped_replaces_nobody():
    pool = Slots(DEAD)
    run = pool._run_worker

    async def stop_meanwhile(fork_server, number):
        pool.stop()
        return await run(fork_server, number)

    pool._run_worker = stop_meanwhile
    assert (await pool.end()).reasons == [ExitReason.STOPPED] and pool.started == 1


async def test_a_drained_run_ends_the_slots_that_have_not_started():
    pool = Slots(WorkerExit(ExitReason.DRAINED))
    await pool.end()
    assert (await pool.end()).reasons == [ExitReason.DRAINED] and pool.started == 1


@pytest.mark.parametrize("deaths", [1, 3, 50])
def test_the_restart_delay_has_a_limit(deaths):
    assert Slots()._restart_delay(DEAD, deaths) <= module.MAX_RESTART_DELAY_SECONDS


class Idle:
    """A worker that is running."""

    def __init__(self, *in_hand):
        self.in_hand, self.is_running, self.woken, self.told = in_hand, True, 0, 0

    def announce_settings(self):
        self.told += 1

    def wake_up(self):
        self.woken += 1


async def test_all_workers_look_when_one_has_found_the_run_drained():
    pool = Slots(WorkerExit(ExitReason.DRAINED))
    pool._supervisors = {1: Idle(), 2: Idle()}
    await pool.end()
    assert [one.woken for one in pool._supervisors.values()] == [1, 1]


def test_a_full_claim_wakes_one_idle_worker():
    pool = Slots()
    pool._supervisors = {1: Idle("a lease"), 2: Idle(), 3: Idle()}
    pool._on_claim(False)
    pool._on_claim(True)
    assert [one.woken for one in pool._supervisors.values()] == [0, 1, 0]


async def test_one_read_of_the_settings_serves_all_workers(monkeypatch):
    stamps, reads = [7, 7, 8], []

    async def read_note(queue, run_id):
        reads.append(run_id)
        return SettingsNote(stamp=stamps.pop(0))

    monkeypatch.setattr(module, "read_note", read_note)
    pool = Slots()
    pool._supervisors = {1: Idle("a lease"), 2: Idle()}
    told = []
    for _ in range(3):
        await pool.check_settings()
        told.append([one.told for one in pool._supervisors.values()])
    assert told == [[1, 1], [1, 1], [2, 2]] and len(reads) == 3


async def test_the_settings_are_read_while_workers_pause_and_hold_nothing(monkeypatch):
    async def read_note(queue, run_id):
        return SettingsNote(StoredSettings(values={"pause": "1h"}), stamps.pop(0))

    monkeypatch.setattr(module, "read_note", read_note)
    stamps, pool = [7, 8], Slots()
    pool._supervisors = {1: Idle("a lease")}
    await pool.check_settings()
    pool._supervisors[1].in_hand = ()
    async with asyncio.timeout(20):
        await pool.check_settings()
    assert pool._supervisors[1].told == 2


async def test_the_settings_are_not_read_while_nothing_is_held_and_at_once_when_work_comes(monkeypatch):
    reads = []

    async def read_note(queue, run_id):
        reads.append(run_id)
        return SettingsNote(stamp=7)

    monkeypatch.setattr(module, "read_note", read_note)
    pool = Slots()
    pool._supervisors = {1: Idle()}
    checking = asyncio.create_task(pool.check_settings())
    for _ in range(3):
        await asyncio.sleep(0)
    assert not reads
    pool._supervisors[1].in_hand = ("a lease",)
    pool._on_claim(False)
    async with asyncio.timeout(20):
        await checking
    assert len(reads) == 1
