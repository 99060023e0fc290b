"""The queue at work: four workers share 2,000 tasks, one of them is killed, and nothing is lost."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from shoal import Task, open_queue
from shoal.core.model import Done, Lease, Outcome, Retry, RunSettings, Stats
from shoal.queue.contract import Queue

PAGES, SHOPS, WORKERS = 2_000, 20, 4
LEASE = timedelta(seconds=2)
POLITE = RunSettings(host_delay=timedelta(milliseconds=10), per_host=4)


async def work(url: str, run_id: str) -> None:
    """Claim, pretend to fetch, settle, until the run is drained."""
    me = f"demo-{os.getpid()}"
    async with open_queue(url) as queue:
        while True:
            await queue.reclaim()
            grant = await queue.claim(me, run_id=run_id, limit=20, lease=LEASE)
            if grant.drained:
                return
            await asyncio.sleep(0.05)  # the time a page takes
            await queue.settle([outcome(lease) for lease in grant.leases])


def outcome(lease: Lease) -> Outcome:
    """Every fiftieth page fails at its first try."""
    number = int(str(lease.task.url).rpartition("/")[2])
    if number % 50 == 0 and lease.attempt == 1:
        return Retry(lease, "status 503", after=timedelta(milliseconds=200))
    return Done(lease, items=[{"page": number, "worker": os.getpid()}])


async def show(url: str) -> int:
    """Run the demo in this terminal; return the exit code."""
    async with open_queue(url) as queue:
        run = await queue.start_run("demo", settings=POLITE)
        report = await queue.enqueue(run.id, pages())
        say(f"Run {run.id}: {report.added:,} tasks on {SHOPS} hosts, {WORKERS} workers.")
        began = time.monotonic()
        workers = [start_worker(url, run.id) for _ in range(WORKERS)]
        try:
            await watch(queue, run.id, workers)
        finally:
            for worker in workers:
                worker.kill()
                worker.wait()
        return await close(queue, run.id, time.monotonic() - began)


def pages() -> Iterator[Task]:
    """Yield the tasks; every tenth comes twice."""
    for number in range(PAGES):
        task = Task(url=f"https://shop{number % SHOPS}.example/page/{number}")
        yield task
        if number % 10 == 0:
            yield task


def start_worker(url: str, run_id: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, __file__, "--worker", url, run_id])


async def watch(queue: Queue, run_id: str, workers: list[subprocess.Popen[bytes]]) -> None:
    """Show the progress, and kill a worker on the way."""
    killed = False
    while (stats := await queue.stats(run_id)).remaining:
        line(stats)
        if not killed and stats.completed > PAGES // 3:
            workers[0].send_signal(signal.SIGKILL)
            killed = True
            say(f"\n  kill -9 {workers[0].pid}: its tasks come back when their leases end.")
        await asyncio.sleep(0.1)
    line(stats)


def line(stats: Stats) -> None:
    if not sys.stderr.isatty():
        return
    bar = "█" * (30 * stats.completed // PAGES)
    say(f"\r  {bar:░<30} {stats.completed:>5,} done  {stats.leased:>3} leased ", end="")


async def close(queue: Queue, run_id: str, seconds: float) -> int:
    """Check what was stored and sum it up."""
    stored = Counter([item.data["page"] async for item in queue.items(run_id)])
    missing, twice = PAGES - len(stored), sum(count > 1 for count in stored.values())
    say(f"\n{len(stored):,} pages stored in {seconds:.1f} s: {missing} lost, {twice} stored twice.")
    say("Next: read README.md, or run every test with: make test")
    return 1 if missing or twice else 0


def say(text: str, end: str = "\n") -> None:
    print(text, end=end, file=sys.stderr, flush=True)


def main() -> int:
    if sys.argv[1:2] == ["--worker"]:
        asyncio.run(work(*sys.argv[2:]))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(show(f"sqlite:///{Path(folder) / 'demo.db'}"))


if __name__ == "__main__":
    sys.exit(main())
