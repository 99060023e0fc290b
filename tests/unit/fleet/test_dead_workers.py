import os
import shutil
import socket
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from shoal.core.model import MINUTE, SECOND, Task
from shoal.core.procfs import pid_scope
from shoal.fleet.dead_workers import MAX_SILENCE, is_dead, new_worker_id, release_leases_of
from shoal.queue.open import open_queue
from tests.conformance.helpers import pages, start
from tests.unit.builders import make_worker

ROOT = Path(__file__).parents[3]
FRESH = timedelta(seconds=0.04)


def worker(worker_id, *, beat=FRESH, info=None):
    return make_worker(
        worker_id=worker_id,
        info={"pid_scope": pid_scope()} if info is None else info,
        last_beat=beat,
        leased=1,
    )


@pytest.fixture
def gone():
    """The id of a worker of this machine whose launcher has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return f"{socket.gethostname()}-{process.pid}-abcd1234"


def test_this_process_lives_and_every_id_is_new():
    ids = {new_worker_id() for _ in range(10)}
    assert len(ids) == 10
    assert not any(is_dead(worker(one, beat=2 * MAX_SILENCE)) for one in ids)


def test_a_process_of_this_machine_that_has_ended_is_dead_at_once(gone):
    assert is_dead(worker(gone))


def test_workers_of_other_machines_and_odd_ids_are_not_dead():
    for name in ("elsewhere.example-1-abcd1234", "worker-1", "nonsense"):
        assert not is_dead(worker(name, beat=2 * MAX_SILENCE))
    assert not is_dead(worker(f"{socket.gethostname()}-x{os.getpid()}-abcd1234", beat=2 * MAX_SILENCE))


def test_a_host_name_and_a_number_that_is_free_here_say_nothing_of_another_boot_or_namespace(gone):
    for scope in ("another boot 4026531836", f"{pid_scope()}0"):
        assert not is_dead(worker(gone, info={"pid_scope": scope}))
        assert not is_dead(worker(gone, info={"pid_scope": scope}, beat=2 * MAX_SILENCE))


def test_without_a_word_on_its_namespace_a_worker_must_have_missed_its_heartbeats_too(gone):
    assert not is_dead(worker(gone, info={}, beat=MAX_SILENCE - SECOND))
    assert is_dead(worker(gone, info={}, beat=MAX_SILENCE + SECOND))


ELSEWHERE = """
import asyncio, sys
from shoal.core.model import MINUTE
from shoal.core.procfs import pid_scope
from shoal.queue.open import open_queue

async def main():
    async with open_queue(sys.argv[1]) as queue:
        me = sys.argv[2]
        await queue.beat(me, run_id="r", info={"pid_scope": pid_scope()})
        await queue.claim(me, run_id="r", limit=5, lease=MINUTE)
        print(me, flush=True)
        sys.stdin.read()

asyncio.run(main())
"""


@pytest.mark.skipif(
    os.geteuid() != 0 or not shutil.which("unshare"),
    reason="only root can make a namespace of process ids, with the program unshare",
)
async def test_a_live_worker_of_the_same_host_name_in_another_pid_namespace_keeps_its_leases(tmp_path, gone):
    """It has a number there that no process has here."""
    url = f"sqlite:///{tmp_path}/queue.db"
    async with open_queue(url) as queue:
        from shoal.core.model import Task

        run = await queue.start_run("s", run_id="r")
        await queue.enqueue("r", [Task(url=f"https://a{number}.test/") for number in range(5)])
        process = subprocess.Popen(
            ["unshare", "--pid", "--fork", sys.executable, "-c", ELSEWHERE, url, gone],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        )
        try:
            assert process.stdout.readline().strip() == gone
            await release_leases_of(queue, run)
            (found,) = await queue.workers("r")
            assert (found.worker_id, found.leased) == (gone, 5)
        finally:
            process.communicate("")


async def test_what_a_dead_worker_held_at_most_once_is_buried_at_once_and_the_rest_handed_back(
    tmp_path, gone
):
    async with open_queue(f"sqlite:///{tmp_path}/queue.db") as queue:
        run = await queue.start_run("s", run_id="r")
        steps = ("buy", "look")
        await queue.enqueue("r", [Task(url=f"https://{step}.test/", step=step) for step in steps])
        await queue.beat(gone, run_id="r", info={"pid_scope": pid_scope(), "at_most_once": ["buy"]})
        assert len((await queue.claim(gone, run_id="r", limit=2, lease=MINUTE)).leases) == 2
        assert await release_leases_of(queue, run) == 2
        (letter,) = [letter async for letter in queue.dead("r")]
        assert letter.task.step == "buy" and "at_most_once" in letter.error
        assert (await queue.stats("r")).pending == 1


def test_leases_are_released_by_one_module_only_which_checks_at_most_once():
    package = ROOT / "src" / "shoal"
    calls = [
        str(file.relative_to(package))
        for file in package.rglob("*.py")
        if ".abandon(" in file.read_text() and "queue" not in file.relative_to(package).parts[0]
    ]
    assert calls == ["worker/process/dead_worker.py"]


async def test_a_worker_that_outlives_its_launcher_keeps_its_leases_until_it_is_dead_too(tmp_path):
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    orphan = f"{socket.gethostname()}-{ended.pid}-abcd1234"
    async with open_queue(f"sqlite:///{tmp_path / 'queue.db'}") as queue:
        run = await start(queue, *pages(2))
        await queue.claim(orphan, run_id=run.id, limit=1)
        await queue.beat(
            orphan, run_id=run.id, state="running", info={"pid": os.getpid(), "pid_scope": pid_scope()}
        )
        assert await release_leases_of(queue, run) == 0
        await queue.beat(
            orphan, run_id=run.id, state="running", info={"pid": ended.pid, "pid_scope": pid_scope()}
        )
        assert await release_leases_of(queue, run) == 1


def test_a_process_that_has_ended_and_that_nobody_has_waited_for_is_dead():
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        os.waitid(os.P_PID, ended.pid, os.WEXITED | os.WNOWAIT)
        assert is_dead(worker(f"{socket.gethostname()}-{ended.pid}-abcd1234"))
