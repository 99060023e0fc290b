"""A page of a list costs the same SQLite steps wherever it begins and however long the list is."""

import pytest

from shoal.core.model import Bury, DeadFilter, Done, TaskState
from shoal.queue.sqlite import dead_letters, hosts, task_list
from shoal.queue.sqlite.connection import SqliteAddress, connect
from shoal.queue.sqlite.queue import SqliteQueue
from shoal.queue.sqlite.store import Store
from tests.conformance.backends import VirtualClock
from tests.conformance.helpers import claim, page, start

ROWS = 20
MAX_RATIO = 1.3  # times the steps of the first page of a short list


async def filled(path, tasks):
    """A queue of `tasks` tasks: half of them pending, a third completed with an item each, a sixth dead."""
    clock = VirtualClock()
    async with await SqliteQueue.open(path, now=clock.now) as queue:
        run = await start(
            queue, *(page(n, f"h{n % 40:02}.example") for n in range(tasks)), run_id="r", per_host=tasks
        )
        for count in range(0, tasks // 2, 100):
            leases = await claim(queue, run, limit=100)
            are_done = count < tasks // 3
            await queue.settle([Done(one, items=[1]) if are_done else Bury(one, "gone") for one in leases])
    return Store(connect(SqliteAddress(path)), clock.now)


@pytest.fixture
async def stores(tmp_path):
    short, long = await filled(tmp_path / "short.db", 600), await filled(tmp_path / "long.db", 6_000)
    yield short, long
    short.connection.close()
    long.connection.close()


def tasks(*states):
    def read(store, mark, size):
        spot = mark or task_list.read_cursor(None, task_list.tables_of(states or None))
        return task_list.tasks(store, spot, size, "r", None, states or None)

    return read


LISTS = {
    "tasks": tasks(),
    "pending": tasks(TaskState.PENDING),
    "dead tasks": tasks(TaskState.DEAD),
    "dead": lambda store, mark, size: dead_letters.dead_letters(store, mark or 0, size, "r", DeadFilter()),
    "hosts": lambda store, mark, size: hosts.list_hosts(store, mark or "", size, "r"),
}


def steps_of(store, act):
    """Return the number of virtual machine steps of SQLite."""
    count = 0

    def step():
        nonlocal count
        count += 1
        return False

    store.connection.set_progress_handler(step, 1)
    act()
    store.connection.set_progress_handler(None)
    return count


def marks_of(store, read):
    """Return the positions after which the pages of a list begin."""
    marks, mark = [], None
    while True:
        mark, rows = read(store, mark, ROWS)
        if mark is None:
            return marks
        if rows:
            marks.append(mark)


async def test_deep_pages_of_long_lists_cost_no_more_than_the_first_of_a_short_one(stores):
    short, long = stores
    for name, read in LISTS.items():
        plain = max(steps_of(short, lambda read=read: read(short, None, ROWS)) for _ in range(2))
        marks = marks_of(long, read)
        for share in (0.0, 0.1, 0.9):
            mark = marks[int(len(marks) * share)]
            cost = steps_of(long, lambda read=read, mark=mark: read(long, mark, ROWS))
            assert cost < MAX_RATIO * plain, (
                f"{name} at {share:.0%}: {cost:,} steps, the first page {plain:,}"
            )
