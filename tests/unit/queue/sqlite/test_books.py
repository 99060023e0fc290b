"""After any history the host queues are due when they should be, and every counter equals a fresh count."""

import random
from datetime import timedelta

import apsw
import pytest

from shoal.core.model import ZERO, Bury, Done, Reject, Release, Retry, RunSettings, Task
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.queue.sqlite.store import Store
from tests.unit.queue.sqlite.conftest import NOON

SECOND = timedelta(seconds=1)
RUNS = {
    "slow": RunSettings(host_delay=SECOND, per_host=1, max_attempts=2),
    "fast": RunSettings(host_delay=ZERO, per_host=3, max_attempts=3, ttl=timedelta(minutes=2)),
}
STATES = "pending, delayed, leased, dead, expired, items, rejected"

COUNTED_ANEW = """
SELECT host_queue.id,
    (SELECT count(*) FROM ready WHERE ready.host_queue = host_queue.id),
    (SELECT count(*) FROM delayed WHERE delayed.host_queue = host_queue.id),
    (SELECT count(*) FROM lease WHERE lease.host_queue = host_queue.id),
    (SELECT count(*) FROM dead JOIN task USING (seq) WHERE task.host_queue = host_queue.id),
    (SELECT count(*) FROM expired JOIN task USING (seq) WHERE task.host_queue = host_queue.id),
    (SELECT count(*) FROM item JOIN task USING (seq) WHERE task.host_queue = host_queue.id),
    (SELECT count(*) FROM reject JOIN task USING (seq) WHERE task.host_queue = host_queue.id)
FROM host_queue ORDER BY host_queue.id
"""
TASKS = """
    SELECT host_queue.id, count(task.seq) FROM host_queue
    LEFT JOIN task ON task.host_queue = host_queue.id GROUP BY 1 ORDER BY 1
"""
KEPT_TASKS = """
SELECT id, pending + delayed + leased + completed + dead + expired + dropped FROM host_queue ORDER BY id
"""
STEP_GROUPS = f"SELECT id, {STATES}, completed, dropped FROM step_group ORDER BY id"
SUMS = "SELECT step_group, {} FROM host_queue GROUP BY step_group ORDER BY step_group".format(
    ", ".join(f"sum({state})" for state in f"{STATES}, completed, dropped".split(", "))
)


class Clock:
    """A clock that a test moves."""

    def __init__(self):
        self.now = NOON

    def __call__(self):
        return self.now


class History:
    """A queue with random events."""

    def __init__(self, queue, clock, seed):
        self.queue, self.clock, self.dice, self.held = queue, clock, random.Random(seed), []

    async def happen(self):
        """Run a random event."""
        for run_id, settings in RUNS.items():
            await self.queue.start_run("books", settings=settings, run_id=run_id)
        verbs = [self.enqueue, self.claim, self.claim, self.settle, self.settle, self.wait, self.steer]
        await self.dice.choice(verbs)()

    async def enqueue(self):
        tasks = [self.task() for _ in range(self.dice.randrange(12))]
        await self.queue.enqueue(self.dice.choice(list(RUNS)), tasks)

    def task(self):
        dice = self.dice
        return Task(
            url=dice.choice([None, f"https://h{dice.randrange(4)}.example/{dice.randrange(99)}"]),
            payload={"n": dice.randrange(99)},
            step=dice.choice(["list", "page"]),
            partition=dice.choice(["", "ca"]),
            priority=dice.choice([0, 0, 5, 9]),
            delay=dice.choice([ZERO, ZERO, SECOND]),
            ttl=dice.choice([None, None, 30 * SECOND]),
        )

    async def claim(self):
        grant = await self.queue.claim(
            "me", run_id=self.dice.choice(list(RUNS)), limit=self.dice.choice([1, 3, 20]), lease=10 * SECOND
        )
        self.held += grant.leases

    async def settle(self):
        self.dice.shuffle(self.held)
        ended, self.held = self.held[:5], self.held[5:]
        await self.queue.settle([self.outcome(lease) for lease in ended])

    def outcome(self, lease):
        pause, slow = (
            self.dice.choice([None, None, 5 * SECOND]),
            self.dice.choice([None, None, ZERO, 2 * SECOND]),
        )
        return self.dice.choice(
            [
                Done(lease, items=[1, 2], rejects=[Reject(data=3, reason="odd")], pause_host=pause),
                Done(lease, follow=[self.task(), self.task()], slow_host=slow),
                Retry(lease, "failed", pause_host=pause, slow_host=slow),
                Retry(lease, "failed", after=3 * SECOND),
                Bury(lease, "hopeless"),
                Release(lease),
            ]
        )

    async def wait(self):
        self.clock.now += self.dice.choice([SECOND / 4, SECOND, 15 * SECOND])
        if self.dice.random() < 0.5:
            await self.queue.reclaim()

    async def steer(self):
        run_id, host = self.dice.choice(list(RUNS)), f"h{self.dice.randrange(4)}.example"
        await self.dice.choice(
            [
                lambda: self.queue.replay(run_id),
                lambda: self.queue.drop(run_id),
                lambda: self.queue.pause_host(host, self.dice.choice([ZERO, 5 * SECOND])),
                lambda: self.queue.slow_host(host, self.dice.choice([ZERO, 2 * SECOND])),
                lambda: self.queue.purge(run_id),
            ]
        )()


def audit(store):
    """Compare the stored counters with those computed from the tasks."""

    def rows(statement):
        return list(store.connection.execute(statement))

    assert rows(f"SELECT id, {STATES} FROM host_queue ORDER BY id") == rows(COUNTED_ANEW)
    assert rows(KEPT_TASKS) == rows(TASKS)
    assert [row for row in rows(STEP_GROUPS) if any(row[1:])] == [row for row in rows(SUMS) if any(row[1:])]
    assert not rows("SELECT id FROM host_queue WHERE host = 0 AND (due IS NULL) <> (pending = 0)")
    # Without a host, the time only determines which host queue is next.
    host_queues = store.connection.execute("SELECT json_group_array(id) FROM host_queue WHERE host > 0").get
    assert store.run("arm", host_queues=host_queues, hosts="[]") == 0, (
        "a host queue was not due when it should have been"
    )


@pytest.mark.parametrize("seed", range(3))
async def test_after_every_event_the_books_are_right(tmp_path, seed):
    clock = Clock()
    store = Store(apsw.Connection(str(tmp_path / "queue.db")), clock)
    async with await SqliteQueue.open(tmp_path / "queue.db", now=clock) as queue:
        history = History(queue, clock, seed)
        for _ in range(120):
            await history.happen()
            audit(store)
    store.connection.close()
