"""Forks coordinators, each of which reads the store's time as if by a clock that is wrong.

Each line on stdin is the error of such a clock in seconds; the reply is the process id. They are forked from
a process that has imported everything, because starting one takes longer than it may live.
"""

import asyncio
import gc
import json
import os
import signal
import sys
from datetime import timedelta
from importlib import import_module
from pathlib import Path

from shoal.fleet import lock
from shoal.fleet.app import App
from shoal.fleet.cluster_roles import MessageObserver
from shoal.fleet.project.file import read
from shoal.fleet.schedule_coordinator import ScheduleCoordinator
from shoal.queue.open import open_queue
from tests.integration.programs import QUEUES


async def fire(url: str, folder: str, skew: float) -> None:
    async with open_queue(url) as queue:
        right = queue.now

        async def now():
            return await right() + timedelta(seconds=skew)

        queue.now = now
        app = App(queue, url, read(Path(folder) / "shoal.toml"))
        say = MessageObserver(lambda text: print(text, file=sys.stderr, flush=True))
        await ScheduleCoordinator(app, say).serve()


if __name__ == "__main__":
    address, place, ttl = json.loads(sys.argv[1])
    lock.LOCK_TTL, lock.RENEW_INTERVAL = timedelta(seconds=ttl), timedelta(seconds=ttl / 5)
    import_module(QUEUES[address.partition(":")[0]])
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them
    while line := sys.stdin.readline():
        if not (pid := os.fork()):
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.close(0)
            asyncio.run(fire(address, place, float(line)))
            os._exit(0)
        print(pid, flush=True)
