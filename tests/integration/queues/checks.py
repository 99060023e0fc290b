"""What must be true once a run is drained."""

from shoal.core.model import Run
from shoal.queue.contract import Queue


async def assert_each_done_once(queue: Queue, run: Run, tasks: int) -> None:
    """Check that every task of the run was completed, and stored its item, once."""
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.completed, stats.remaining, stats.items) == (tasks, tasks, 0, tasks)
    items = [item.task_id async for item in queue.items(run.id)]
    assert len(set(items)) == len(items) == tasks
