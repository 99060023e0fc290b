"""A page of a list costs the same number of commands wherever it begins and however long the list is."""

from shoal.core.model import Bury, Done, TaskState
from tests.conformance.helpers import claim, page, start
from tests.integration.redis.test_claim_cost import commands_of

ROWS = 20
TOLERANCE = 4  # commands


async def filled(queue, tasks, run_id):
    run = await start(queue, *(page(n, f"h{n % 5}.example") for n in range(tasks)), run_id=run_id)
    for count in range(0, tasks // 2, 100):
        leases = await claim(queue, run, limit=100)
        are_done = count < tasks // 3
        await queue.settle([Done(one, items=[1]) if are_done else Bury(one, "gone") for one in leases])
    return run


async def page_after(stream):
    rows = []
    async for row in stream:
        rows.append(row)
        if len(rows) == ROWS:
            break
    return rows


def lists_of(queue, run):
    return {
        "dead letters": lambda after: queue.dead(run.id, after=after),
        **{
            str(state): lambda after, state=state: queue.tasks(run.id, states=[state], after=after)
            for state in (TaskState.PENDING, TaskState.COMPLETED, TaskState.DEAD)
        },
    }


async def test_deep_pages_of_long_lists_cost_no_more_than_the_first_of_a_short_one(queue, direct):
    short, long = await filled(queue, 600, "short"), await filled(queue, 3_000, "long")
    for name, first in lists_of(queue, short).items():
        plain = await commands_of(direct, page_after(first(None)))
        behind = lists_of(queue, long)[name]
        places = [row.cursor async for row in behind(None)]
        for share in (0.1, 0.9):
            after = places[int(len(places) * share)]
            cost = await commands_of(direct, page_after(behind(after)))
            assert cost <= plain + TOLERANCE, (
                f"{name} at {share:.0%}: {cost} commands, the first page {plain}"
            )
