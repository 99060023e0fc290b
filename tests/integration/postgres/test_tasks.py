"""Completed tasks are read from a table without an index, a few blocks at a time: all of them, each once."""

from shoal.core.model import Done, TaskState
from shoal.queue.postgres import task_list
from tests.conformance.helpers import claim_all, pages, start

TASKS, AT_ONCE = 2_000, 20
BLOCKS = "SELECT pg_relation_size('shoal.done') / current_setting('block_size')::int"


async def test_pages_of_blocks_neither_overlap_nor_leave_gaps(queue, direct, monkeypatch):
    run = await start(queue, *pages(TASKS), per_host=TASKS)
    leases = await claim_all(queue, run, limit=500)
    for first in range(0, TASKS, AT_ONCE):
        await queue.settle([Done(lease, items=[1]) for lease in leases[first : first + AT_ONCE]])
    assert await direct.fetchval(BLOCKS) > 3
    monkeypatch.setattr(task_list, "BLOCKS", 2)
    monkeypatch.setattr(task_list, "TASKS", 50)
    found = [status async for status in queue.tasks(run.id, states=[TaskState.COMPLETED])]
    assert len({status.id for status in found}) == len(found) == TASKS
    assert {status.items for status in found} == {1}
