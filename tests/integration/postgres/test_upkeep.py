"""The queue's own bookkeeping stays small, and changes caused by time are made in batches."""

import asyncio
from uuid import uuid4

import asyncpg
import pytest

from shoal.core.model import MINUTE, SECOND, ZERO, Bury, Done, Reject, Retry
from shoal.core.pacing import BURST_HORIZON
from shoal.fleet.maintenance import reclaim_if_due
from shoal.queue.postgres import runs
from shoal.queue.postgres.claim import CLAIM
from shoal.queue.postgres.leases import TIDY
from tests.conformance.backends import ServerClock
from tests.conformance.helpers import HOST, HOUR, claim, claim_all, claim_one, page, pages, paths, start
from tests.integration.postgres.locks import someone_waits

RECEIPTS = "SELECT count(*) FROM shoal.receipt"


async def try_claim(direct, call, run, *, again, fence=(None, None, None)):
    """Make one attempt of a claim, as the client does, and return the leases."""
    rows = await direct.fetch(
        *(
            CLAIM,
            call,
            again,
            run.id,
            "worker-1",
            10,
            MINUTE,
            BURST_HORIZON,
            None,
            None,
            [],
            [],
            *fence,
            ZERO,
        )
    )
    return [row["task"] for row in rows if row["task"]]


async def test_claims_that_find_nothing_leave_no_receipt(queue, direct):
    run = await start(queue, page(1))
    lease = await claim_one(queue, run)
    before = await direct.fetchval(RECEIPTS)
    for _ in range(5):
        assert not await claim(queue, run)
    assert await direct.fetchval(RECEIPTS) == before
    await queue.settle([Done(lease)])
    assert (await queue.claim("worker-1", run_id=run.id)).drained


async def test_a_first_try_that_arrives_after_its_fruitless_repetition_leases_nothing(queue, direct):
    for reason in ("empty", "paused", "outdated"):
        run, call = await start(queue, *(pages(0) if reason == "empty" else pages(3))), uuid4()
        if reason == "paused":
            await queue.pause(run.id)
        fence = ("plans", b"nobody wrote it", 1) if reason == "outdated" else (None, None, None)
        assert not await try_claim(direct, call, run, again=True, fence=fence)
        await queue.resume(run.id)
        await queue.enqueue(run.id, pages(3))
        with pytest.raises(asyncpg.UniqueViolationError):
            await try_claim(direct, call, run, again=False)
        assert (await queue.stats(run.id)).leased == 0


async def test_a_second_try_that_arrives_after_a_fruitless_third_leases_nothing(queue, direct):
    run, call = await start(queue), uuid4()
    assert not await try_claim(direct, call, run, again=True)
    await queue.enqueue(run.id, pages(3))
    assert not await try_claim(direct, call, run, again=True)
    assert (await queue.stats(run.id)).leased == 0
    assert len(await claim(queue, run)) == 3


async def test_an_hour_of_a_fleets_traffic_leaves_little_behind(queue, direct, postgres_url):
    clock = ServerClock(postgres_url)
    clock.queues.append(queue)
    run = await start(queue, *pages(120), *pages(5, "slow.example", ttl=MINUTE))
    most: dict[str, int] = {}
    for _ in range(12):
        await a_few_minutes_of_work(queue, run)
        await clock.forward(5 * MINUTE)
        await reclaim_if_due(queue)
        for table in ("receipt", "delta", "note", "delayed", "lease"):
            count = await direct.fetchval(f"SELECT count(*) FROM shoal.{table}")
            most[table] = max(most.get(table, 0), count)
    await clock.close()
    stats = await queue.stats(run.id)
    assert (stats.completed, stats.expired, stats.tasks) == (120 - stats.remaining, 5, 125)
    # Some minutes' worth of each; without clean-up the fleet leaves 12 times as much.
    assert most["receipt"] <= 60
    assert most["delta"] == 0
    assert most["note"] <= 5
    assert most["delayed"] <= 10
    assert most["lease"] <= 10


async def a_few_minutes_of_work(queue, run):
    for number in range(5):
        leases = await claim(queue, run, limit=2)
        outcomes = [
            Retry(lease, "again", after=SECOND) if lease.attempt == 1 else Done(lease) for lease in leases
        ]
        await queue.settle(outcomes)
        await queue.write_notes("seen", {f"page {number}": b"1"}, ttl=MINUTE)
    await claim(queue, run, limit=1, lease=MINUTE)  # by a worker that dies


async def test_a_backlog_is_cleared_in_pieces_until_nothing_is_left(queue, direct):
    run = await start(queue)
    await direct.execute(A_BACKLOG, 25_000)
    assert await direct.fetchval(TIDY, 1_000)
    assert 0 < await direct.fetchval(RECEIPTS) < 25_000
    await queue.reclaim()
    assert (
        await direct.fetchval("SELECT count(*) FROM shoal.receipt WHERE at < now() - interval '1 hour'") == 0
    )
    assert await direct.fetchval("SELECT count(*) FROM shoal.delta") == 0
    assert (await queue.stats(run.id)).tasks == 0


A_BACKLOG = """
    WITH old AS (
        INSERT INTO shoal.receipt
        SELECT gen_random_uuid(), now() - interval '2 hours', '{1}' FROM generate_series(1, $1)
    )
    INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
    SELECT (SELECT min(id) FROM shoal.run), '{1}', '{0}', '{0}', '{0}' FROM generate_series(1, $1)
"""


TABLES_OF_A_RUN = (
    *("task", "item", "reject", "dead", "expired", "dropped", "attempt", "done", "bundle", "host_queue"),
    *("step_group", "delta", "step_group_counters", "host_counters", "purged"),
)


async def used_run(queue, count=40):
    """Start a run that has rows in every table."""
    run = await start(queue, *pages(count), max_attempts=2)
    leases = await claim_all(queue, run)
    reject = Reject(data={}, reason="empty")
    done = [Done(lease, items=[{"n": 1}], rejects=[reject]) for lease in leases[: count // 2]]
    await queue.settle([*done, *(Bury(lease, "gone") for lease in leases[count // 2 :])])
    await queue.drop(run.id, [leases[-1].task_id])
    return run


async def rows_of(direct):
    counts = {
        table: await direct.fetchval(f"SELECT count(*) FROM shoal.{table}") for table in TABLES_OF_A_RUN
    }
    return {table: count for table, count in counts.items() if count}


async def test_a_purge_deletes_in_many_short_batches_and_leaves_other_runs(queue, direct, monkeypatch):
    monkeypatch.setattr(runs, "PURGED_ROWS", 7)
    monkeypatch.setattr(runs, "PURGED_BLOCKS", 1)
    gone, stays = await used_run(queue), await used_run(queue)
    before = await queue.stats(stays.id)
    await queue.purge(gone.id)
    assert await queue.stats(stays.id) == before
    assert len([letter async for letter in queue.dead(stays.id)]) == before.dead
    await queue.purge(stays.id)
    assert await rows_of(direct) == {}


async def test_a_purge_that_was_interrupted_is_completed_by_a_reclaim(queue, direct):
    run = await used_run(queue)
    await direct.fetch("SELECT shoal.purge($1)", run.id)
    assert (await rows_of(direct))["purged"] == 1
    assert not await queue.runs()
    await queue.reclaim()
    assert await rows_of(direct) == {}


async def test_a_purge_that_meets_a_sweep_leaves_nothing_behind(queue, direct, uncommitted):
    run = await start(queue, *pages(3, delay=HOUR, ttl=HOUR))
    await direct.execute("UPDATE shoal.delayed SET due_at = clock_timestamp()")
    async with uncommitted() as late:
        await late._server.fetch(TIDY, 1_000)
        purging = asyncio.create_task(queue.purge(run.id))
        await someone_waits(direct)
    await purging
    for table in ("bundle", "delayed", "host_queue", "task", "delta", "step_group_counters", "host_counters"):
        assert await direct.fetchval(f"SELECT count(*) FROM shoal.{table}") == 0, table


async def test_live_tasks_are_handed_out_although_many_others_have_yet_to_expire(queue, direct):
    """More tasks than one claim can expire are overdue, in a higher band and on the same host."""
    run = await start(queue, page("live"), page("urgent", "b.example", priority=5))
    await queue.enqueue(run.id, [page(n, priority=9, ttl=HOUR) for n in range(5)])
    await direct.execute(OVERDUE, 1_200)
    grant = await queue.claim("worker-1", run_id=run.id, limit=2)
    assert sorted(paths(grant.leases)) == [f"{HOST}/live", "b.example/urgent"]
    await queue.settle([Done(lease) for lease in grant.leases])
    grants = []
    while not (grants and grants[-1].drained):
        grants.append(await queue.claim("worker-1", run_id=run.id))
        assert not grants[-1].leases
    assert all(grant.next_due <= SECOND for grant in grants[:-1])
    assert len(grants) <= 4


# Bundles as they are when many tasks expire at the same time, counted as pending.
OVERDUE = """
    WITH one AS (
        UPDATE shoal.bundle SET expires_at = clock_timestamp() WHERE expires_at IS NOT NULL RETURNING *
    ), more AS (
        INSERT INTO shoal.bundle (host, step_group, shard, priority, run, attempt, expires_at, tasks)
        SELECT host, step_group, shard, priority, run, attempt, clock_timestamp(), tasks[1:1]
        FROM one, generate_series(1, $1::int)
    )
    INSERT INTO shoal.delta (run, step_groups, hosts, kinds, counts)
    SELECT run, ARRAY[step_group], ARRAY[host], '{0}', ARRAY[$1::int] FROM one
"""


async def test_a_bundle_that_expires_under_a_claim_leaves_no_gap_too_short(queue, direct, postgres_url):
    run = await start(queue, host_delay=SECOND / 10)
    for name in ("first", "second"):
        await queue.enqueue(run.id, [page(f"{name}-{n}", ttl=HOUR) for n in range(2)])
    rival = await asyncpg.connect(postgres_url)
    async with rival.transaction():
        await rival.execute("DELETE FROM shoal.bundle WHERE seq = (SELECT min(seq) FROM shoal.bundle)")
        claiming = asyncio.create_task(claim(queue, run, limit=4))
        await someone_waits(direct)
    await rival.close()
    assert len(await claiming) == 2
    newest = await direct.fetchval("SELECT max(start_at) FROM shoal.lease")
    assert await direct.fetchval("SELECT last_at FROM shoal.host WHERE id > 0") == newest


async def test_settling_reads_the_runs_that_it_concerns_and_no_others(queue, direct):
    run = await start(queue, *pages(3), host_delay=HOUR)
    await direct.execute(
        "INSERT INTO shoal.run (run_id, scraper, host_delay, per_host, max_attempts)"
        " SELECT 'old' || n, 'books', '1 s', 1, 1 FROM generate_series(1, 2000) n"
    )
    lease = await claim_one(queue, run)
    hosts = [await direct.fetchval("SELECT id FROM shoal.host WHERE name = $1", HOST)]
    async with direct.transaction():
        before = await direct.fetchval(READ_OF_RUNS)
        await direct.fetch("SELECT shoal.wake($1::int[])", hosts)
        assert await direct.fetchval(READ_OF_RUNS) - before < 10
    await queue.settle([Done(lease)])


READ_OF_RUNS = """
    SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
    FROM pg_stat_xact_user_tables WHERE relname = 'run'
"""


async def test_keys_that_other_runs_knew_are_deleted_when_their_time_is_over(queue, direct, postgres_url):
    clock = ServerClock(postgres_url)
    await start(queue, *pages(1_000), dedup=HOUR)
    await clock.forward(HOUR / 2)
    await start(queue, page("young"), dedup=HOUR)
    await clock.forward(HOUR / 2 + SECOND)
    await queue.reclaim()
    assert await direct.fetchval("SELECT count(*) FROM shoal.dedup") == 1
    await clock.close()
