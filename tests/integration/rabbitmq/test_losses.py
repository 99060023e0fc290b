"""Data loss of one server: nothing that the other has is lost, and the rest is given up with an error."""

import asyncio
from contextlib import asynccontextmanager

import pytest

from shoal.core.model import MINUTE, SECOND, ZERO, Done, ReportedState, Retry
from shoal.fleet.status.progress import snapshot_of
from shoal.queue.rabbitmq import acks
from shoal.queue.rabbitmq.queue import RabbitQueue
from tests.conformance.helpers import HOUR, claim, claim_all, claim_one, page, pages, start
from tests.servers.process import free_port

LOST_AFTER = 2 * MINUTE + SECOND


class Later:
    """An offset of the clock of Redis."""

    def __init__(self):
        self.skew = ZERO

    def __call__(self):
        return self.skew

    def __iadd__(self, delta):
        self.skew += delta
        return self


@pytest.fixture
def later():
    return Later()


@pytest.fixture
async def queue(rabbitmq_url, later):
    async with await RabbitQueue.open(rabbitmq_url, skew=later) as queue:
        yield queue
        for run in await queue.runs():
            await queue.purge(run.id)


@asynccontextmanager
async def forgotten(direct):
    """Let Redis forget what happens in the block, like a failover to a replica that lags."""
    kept = {key: await direct.dump(key) for key in await direct.keys("*")}
    yield
    await direct.flushdb()
    for key, value in kept.items():
        await direct.restore(key, 0, value)


async def empty(depths, run, kind):
    """Delete the messages of a queue, as an operator may do."""
    channel = await depths.connection.channel()
    return (await channel.queue_purge((await depths.names(run)).prefix + kind)).message_count


async def give_up(queue, run, later):
    """Work until what is lost has been given up; return the leases, all of them settled."""
    leases = []
    for _ in range(5):
        leases += (new := await claim_all(queue, run))
        await queue.settle([Done(lease) for lease in new])
        later += LOST_AFTER
        queue._transport._losses._next_report.clear()
    return leases


def ids(leases):
    return {lease.task_id for lease in leases}


# Data that Redis loses


async def test_a_bundle_whose_receipt_redis_forgets_is_received_again_after_the_worker_ends(
    queue, rabbitmq_url, direct
):
    run = await start(queue, *pages(1_000))
    async with forgotten(direct), await RabbitQueue.open(rabbitmq_url) as worker:
        assert len(await claim(worker, run, limit=10)) == 10
    leases = await claim_all(queue, run, limit=100)
    assert len(ids(leases)) == len(leases) == 1_000


async def test_a_bundle_whose_receipt_redis_forgets_is_received_again_while_the_worker_lives(
    queue, direct, monkeypatch
):
    run = await start(queue, *pages(1_000))
    async with forgotten(direct):
        assert len(await claim(queue, run, limit=10)) == 10
    monkeypatch.setattr(acks, "ACK_DELAY", ZERO)
    await queue._transport._acks.check()
    leases = await claim_all(queue, run, limit=100)
    assert len(ids(leases)) == len(leases) == 1_000
    await queue.settle([Done(lease) for lease in leases])
    assert (await queue.claim("worker-1", run_id=run.id)).drained


async def test_tasks_that_redis_forgets_together_with_their_receipt_enter_again(queue, direct, monkeypatch):
    run = await start(queue)
    async with forgotten(direct):
        await queue.enqueue(run.id, pages(300))
        await claim(queue, run, limit=10)
    await queue.enqueue(run.id, [page("new")])
    monkeypatch.setattr(acks, "ACK_DELAY", ZERO)
    await queue._transport._acks.check()
    assert len(await claim_all(queue, run, limit=100)) == 301


async def test_a_message_is_acknowledged_once_its_receipt_is_old_enough(
    queue, rabbitmq_url, depths, monkeypatch
):
    monkeypatch.setattr(acks, "ACK_DELAY", ZERO)
    monkeypatch.setattr(acks, "CHECK_INTERVAL", SECOND / 100)
    run = await start(queue, *pages(1_000))
    async with await RabbitQueue.open(rabbitmq_url) as worker:
        assert len(await claim_all(worker, run, limit=100)) == 1_000
        async with asyncio.timeout(10):
            while worker._transport._acks._held:
                await asyncio.sleep(0.01)
    assert await depths.of(run, "p0") == 0


async def test_many_messages_that_wait_for_their_acknowledgement_do_not_pile_up(queue, monkeypatch):
    run = await start(queue, *pages(2_000))
    monkeypatch.setattr(acks, "MAX_HELD", 3)
    await claim_all(queue, run, limit=500)
    await queue._transport._acks.check()
    assert len(queue._transport._acks._held) == 3


async def test_what_a_dead_worker_had_not_acknowledged_is_recognised_by_its_name(
    queue, rabbitmq_url, monkeypatch
):
    run = await start(queue, *pages(600))
    async with await RabbitQueue.open(rabbitmq_url) as dead:
        leases = await claim_all(dead, run, limit=100)

    async def unexpected(*_):
        raise AssertionError("a received bundle was decoded again")

    monkeypatch.setattr(queue._transport, "_handle_unknown", unexpected)
    await queue.enqueue(run.id, [page("new")])
    assert len(await claim_all(queue, run)) == 1
    await queue.settle([Done(lease) for lease in leases])
    assert (await queue.stats(run.id)).tasks == 601


# Messages that the broker loses


async def test_tasks_that_are_gone_from_the_broker_are_given_up_and_may_enter_again(
    queue, depths, later, caplog
):
    lost, kept = pages(300, "a.example", priority=9), pages(20, "b.example", priority=9)
    lower = [page(f"lower-{n}", "a.example") for n in range(30)]
    run = await start(queue, *kept)
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])
    await queue.enqueue(run.id, [*lost, *lower])
    assert await empty(depths, run, "p9")
    assert await claim_all(queue, run) == []  # the higher priority holds the lower ones back
    assert len(await give_up(queue, run, later)) == 30
    assert "300 tasks of the run" in caplog.text
    stats = await queue.stats(run.id)
    assert (stats.tasks, stats.remaining, stats.lost) == (50, 0, 300)
    snapshot = await snapshot_of(queue, run, stats)
    assert snapshot.state is ReportedState.PARTIAL and snapshot.row().lost == 300
    assert snapshot.reason.startswith("300 tasks were lost, because RabbitMQ no longer has their messages")
    assert (await queue.claim("worker-1", run_id=run.id)).drained
    report = await queue.enqueue(run.id, [*lost, *kept, *lower])
    assert (report.added, report.duplicate) == (300, 50)
    assert (await queue.stats(run.id)).lost == 0
    assert (await queue.enqueue(run.id, lost)).added == 0
    assert len(await claim_all(queue, run, limit=100)) == 300


async def test_tasks_that_are_gone_may_enter_again_though_their_keys_are_known_to_other_runs(
    queue, depths, later
):
    run = await start(queue, *pages(20), dedup=HOUR)
    assert await empty(depths, run, "p0") == 1
    assert await give_up(queue, run, later) == []
    assert (await queue.enqueue(run.id, pages(20))).added == 20
    other = await start(queue, dedup=HOUR)
    assert (await queue.enqueue(other.id, pages(20))).known == 20


async def test_delayed_tasks_that_are_gone_from_the_broker_are_given_up(queue, depths, later, caplog):
    tasks = [page(n, f"h{n % 3}.example", delay=MINUTE, step=f"s{n % 2}") for n in range(30)]
    run = await start(queue, *tasks, page("later", delay=HOUR), page("now"))
    await queue.settle([Retry(await claim_one(queue, run), "busy", after=MINUTE)])
    assert await empty(depths, run, "wait-40s") == 2
    later += MINUTE
    assert await give_up(queue, run, later) == []
    assert f"tasks of the run {run.id} are lost" in caplog.text
    stats = await queue.stats(run.id)
    assert (stats.delayed, stats.pending) == (1, 0)
    assert (await queue.enqueue(run.id, [*tasks, page("now")])).added == 31


async def test_while_new_tasks_keep_coming_only_what_is_gone_is_given_up(queue, depths, later):
    run = await start(queue, *pages(40, "gone.example"))
    assert await empty(depths, run, "p0") == 1
    came = 0
    for n in range(8):
        await queue.enqueue(run.id, pages(20, f"new-{n}.example"))
        leases = await claim_all(queue, run)
        came += len(leases)
        await queue.settle([Done(lease) for lease in leases])
        later += LOST_AFTER / 2
        queue._transport._losses._next_report.clear()
    assert came == 160
    assert (await queue.stats(run.id)).remaining == 0
    assert (await queue.enqueue(run.id, pages(40, "gone.example"))).added == 40
    assert await depths.of(run, "p0") == 1  # new tasks are in the broker again


async def test_a_bundle_that_was_given_up_and_arrives_after_all_adds_its_tasks_once(queue, depths, later):
    run = await start(queue, *pages(100))
    body = (await depths.take(run, "p0")).body
    assert await give_up(queue, run, later) == []
    await queue.enqueue(run.id, [page(1), page(2)])
    await depths.put(run, "p0", body)
    leases = await claim_all(queue, run)
    await queue.settle([Done(lease) for lease in leases])
    assert len(ids(leases)) == len(leases) == 100
    assert (await queue.stats(run.id)).tasks == 100


async def test_a_bundle_that_another_worker_holds_is_not_given_up(queue, rabbitmq_url, depths, later):
    run = await start(queue, *pages(100))
    other = await RabbitQueue.open(rabbitmq_url)
    assert await other._broker.fetch((await depths.names(run)).of(0))
    assert await claim_all(queue, run) == []
    await other.close()
    assert len(await give_up(queue, run, later)) == 100


async def test_a_bundle_that_is_not_published_yet_is_not_given_up(queue, later, monkeypatch):
    run = await start(queue)
    publish = queue._server.publish

    async def nothing(bundles, wait):
        return None

    monkeypatch.setattr(queue._server, "publish", nothing)
    await queue.enqueue(run.id, pages(10))
    assert await give_up(queue, run, later) == []
    assert (await queue.stats(run.id)).pending == 10
    monkeypatch.setattr(queue._server, "publish", publish)
    monkeypatch.setattr(queue._transport, "_next_resend", 0.0)
    assert len(await claim_all(queue, run)) == 10


async def test_a_broker_that_is_away_gives_nothing_up(queue, later, monkeypatch):
    run = await start(queue, *pages(10))
    urls = queue._broker._in._urls
    await queue._broker._in.disconnect()
    monkeypatch.setattr(queue._broker, "_patience", SECOND / 10)
    monkeypatch.setattr(queue._broker._in, "_urls", [f"amqp://127.0.0.1:{free_port()}/"])
    for _ in range(4):
        with pytest.raises(Exception, match="cannot be reached"):
            await claim(queue, run)
        later += LOST_AFTER
    monkeypatch.setattr(queue._broker._in, "_urls", urls)
    assert len(await claim_all(queue, run)) == 10
