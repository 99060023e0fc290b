"""Progress of a run, and what it waits for."""

from datetime import timedelta

import pytest

from shoal.core.model import Counts, HostStatus, Run, RunSettings, RunState, Stats
from shoal.fleet.status.progress import ProgressReader, Snapshot


def host(name, *, paused=None, pending=1):
    return HostStatus(
        host=name,
        counts=Counts(pending=pending),
        delay=None,
        paused_for=timedelta(seconds=paused) if paused else None,
    )


class Queue:
    """A queue that has one run, its counts and its hosts."""

    def __init__(self, stats, *hosts):
        self._stats, self._hosts, self.looks = stats, hosts, 0

    async def run(self, run_id):
        return Run(id=run_id, scraper="s", state=RunState.RUNNING, settings=RunSettings(), started_at=None)

    async def stats(self, run_id):
        return self._stats

    async def notes(self, topic, keys=None):
        return {}

    async def hosts(self, run_id):
        self.looks += 1
        for one in self._hosts:
            yield one


async def look(stats, *hosts) -> Snapshot:
    return await ProgressReader(Queue(stats, *hosts), "r").read()


async def test_a_run_without_leases_says_which_hosts_it_waits_for():
    hosts = (host("a.example", paused=90), host("b.example"), host("c.example", paused=18))
    snapshot = await look(Stats(pending=3), *hosts)
    assert snapshot.waits_for == "c.example and 1 more, paused for 18 s"
    assert (await look(Stats(pending=1), hosts[0])).waits_for == "a.example, paused for 90 s"


@pytest.mark.parametrize(
    ("stats", "one"),
    [
        (Stats(pending=1, leased=1), host("a.example", paused=9)),
        (Stats(completed=1), host("a.example", paused=9)),
        (Stats(pending=1), host("a.example")),
        (Stats(pending=1), host("a.example", paused=9, pending=0)),
    ],
    ids=["something is in hand", "nothing is left", "no host is paused", "nothing is wanted of it"],
)
async def test_otherwise_it_waits_for_no_host(stats, one):
    assert (await look(stats, one)).waits_for is None


async def test_hosts_are_not_read_again_at_once():
    queue = Queue(Stats(pending=1), host("a.example", paused=9))
    progress = ProgressReader(queue, "r")
    await progress.read()
    assert (await progress.read()).waits_for and queue.looks == 1
