"""Workers that outlive their launcher finish what they have begun: nobody takes it out of their hands."""

import os
import socket
import subprocess
import sys

from shoal.core.model import ZERO, WorkerStatus
from shoal.fleet.dead_workers import is_dead, release_leases_of
from shoal.queue.open import open_queue
from shoal.worker.process.procfs import pid_scope
from tests.conformance.helpers import pages, start


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
        found = WorkerStatus(
            worker_id=f"{socket.gethostname()}-{ended.pid}-abcd1234",
            run_id="r",
            state="running",
            info={"pid_scope": pid_scope()},
            last_beat=ZERO,
            leased=0,
            completed=0,
            failed=0,
            items=0,
        )
        assert is_dead(found)
