"""A page of a list reads as many blocks wherever it begins and however long the list is."""

import json

import pytest

from shoal.core.model import Bury, Done, TaskState
from shoal.queue.postgres.sql import QUERIES
from shoal.queue.postgres.task_list import BLOCKS, PostgresCursor, tasks_query
from tests.conformance.helpers import claim, page, start

ROWS = 20
MAX_RATIO = 2.0  # times the blocks of the first page of a short list


async def filled(queue, tasks, run_id):
    """A run of `tasks` tasks: half of them pending, a third completed, a sixth dead."""
    run = await start(queue, *(page(n, f"h{n % (tasks // 4)}.example") for n in range(tasks)), run_id=run_id)
    for count in range(0, tasks // 2, 100):
        leases = await claim(queue, run, limit=100)
        are_done = count < tasks // 3
        await queue.settle([Done(one, items=[1]) if are_done else Bury(one, "gone") for one in leases])
    return run


async def prepared(direct):
    """Prepare the queries with generic plans, as in a queue that has been open for long."""
    await direct.execute("VACUUM ANALYZE")
    await direct.execute("SET plan_cache_mode = force_generic_plan")
    await direct.execute(f"PREPARE dead AS {QUERIES['dead']}")
    for state in (TaskState.PENDING, TaskState.DEAD, TaskState.COMPLETED):
        await direct.execute(f"PREPARE tasks_{state} AS {tasks_query(state, ROWS)}")


def of_tasks(state, run, spot):
    mark = ", ".join(f"'{part}'" for part in spot.before)
    until = f", {int(spot.mark[0]) + BLOCKS}" if state is TaskState.COMPLETED else ""
    return f"tasks_{state}('{run.id}', ARRAY[{mark}], {ROWS}, NULL, NULL{until})"


def of_dead(run, place):
    return f"dead('{run.id}', {place}, {ROWS}, NULL, NULL, NULL, NULL, NULL, NULL)"


async def blocks_of(direct, call):
    await direct.execute("SELECT 1")
    (row,) = await direct.fetch(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) EXECUTE {call}")
    (answer,) = json.loads(row[0])
    assert answer["Plan"]["Actual Rows"] >= ROWS
    assert not {"bundle", "dead", "task"} & set(read_whole(answer["Plan"])), row[0]
    return answer["Plan"]["Shared Hit Blocks"] + answer["Plan"]["Shared Read Blocks"]


def read_whole(plan):
    """Yield the tables that a plan scans sequentially."""
    if plan["Node Type"] == "Seq Scan":
        yield plan["Relation Name"]
    for part in plan.get("Plans", []):
        yield from read_whole(part)


async def places_of(stream):
    return [row.cursor async for row in stream]


def calls_behind(queue, run):
    """Return the lists of a run, and for each the query of a page after a cursor."""
    lists = {
        state: (
            queue.tasks(run.id, states=[state]),
            lambda place, state=state: of_tasks(state, run, PostgresCursor.read(place)),
        )
        for state in (TaskState.PENDING, TaskState.DEAD, TaskState.COMPLETED)
    }
    return lists | {"dead letters": (queue.dead(run.id), lambda place: of_dead(run, place))}


@pytest.mark.long
async def test_deep_pages_of_long_lists_cost_no_more_than_the_first_of_a_short_one(queue, direct):
    short, long = await filled(queue, 1_200, "short"), await filled(queue, 12_000, "long")
    await prepared(direct)
    deep = calls_behind(queue, long)
    for name, (stream, page_behind) in calls_behind(queue, short).items():
        plain = await blocks_of(direct, page_behind((await places_of(stream))[0]))
        places = await places_of(deep[name][0])
        for share in (0.1, 0.9):
            cost = await blocks_of(direct, deep[name][1](places[int(len(places) * share)]))
            assert cost < MAX_RATIO * plain, f"{name} at {share:.0%}: {cost} blocks, the first page {plain}"
