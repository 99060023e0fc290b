"""Tasks in the broker are counted and not listed; a task that may be there is not reported."""

from shoal.core.model import Done, TaskState
from tests.conformance.helpers import HOUR, claim, claim_all, every, page, pages, start, url


async def states(queue, run, **asked):
    return [status.state async for status in queue.tasks(run.id, **asked)]


async def test_tasks_in_the_broker_are_counted_and_not_listed(queue):
    run = await start(queue, *pages(300))
    assert await states(queue, run) == []
    assert (await queue.stats(run.id)).pending == 300
    (lease,) = await claim(queue, run, limit=1)
    listed = await every(queue.tasks(run.id))
    assert [status.id for status in listed if status.state is TaskState.LEASED] == [lease.task_id]
    in_redis = [status for status in listed if status.state is TaskState.PENDING]
    assert len(in_redis) < 300


async def test_a_task_that_may_be_in_the_broker_is_not_called_completed(queue):
    run = await start(queue, page(1), page(2, delay=HOUR))
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])
    assert await states(queue, run, keys=[url(1), url(2)]) == []


async def test_once_the_broker_has_nothing_a_task_that_left_no_trace_is_completed(queue):
    run = await start(queue, page(1))
    assert await states(queue, run, keys=[url(1)]) == []
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])
    assert await states(queue, run, keys=[url(1), url("never")]) == [TaskState.COMPLETED]
