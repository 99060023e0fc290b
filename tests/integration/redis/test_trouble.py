"""Server errors reach the caller as Shoal's own errors, which say what to do and contain no secrets."""

import asyncio
from dataclasses import dataclass
from itertools import islice

import pytest

from shoal.core.errors import (
    InvalidSetting,
    QueueError,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueUnavailable,
    SchemaTooNew,
    UnknownRun,
)
from shoal.core.model import MINUTE, SECOND, ZERO, Done, Fate, Lease, Retry, Run, RunState
from shoal.queue.redis.queue import RedisQueue
from shoal.worker.page_limit import PageLimit
from tests.conformance.helpers import claim, page, pages, start
from tests.conftest import or_skip
from tests.servers.process import free_port
from tests.servers.redis import RedisServer

PASSWORD = "correct-horse"
IMPATIENT = SECOND / 3


async def refusal(url, kind, patience=IMPATIENT):
    """Open a queue that cannot be opened, and return the message of the error."""
    with pytest.raises(kind) as caught:
        await RedisQueue.open(url, patience=patience)
    said = str(caught.value)
    assert PASSWORD not in said
    return said


@pytest.fixture(scope="module")
def guarded():
    with or_skip(lambda: RedisServer(password=PASSWORD)) as server:
        yield server


async def test_nobody_listens():
    said = await refusal(f"redis://:{PASSWORD}@127.0.0.1:{free_port()}/0", QueueUnavailable)
    assert "cannot be reached" in said


@pytest.mark.parametrize("user", ["", ":wrong@", "nobody:correct-horse@"])
async def test_a_wrong_password_or_none_is_refused_at_once(guarded, user):
    said = await refusal(f"redis://{user}127.0.0.1:{guarded.port}/0", QueueRefused, patience=MINUTE)
    assert "Check the user, password" in said


async def test_the_right_password_is_let_in_and_never_shown(guarded):
    async with await RedisQueue.open(guarded.url()) as queue:
        with pytest.raises(UnknownRun) as caught:
            await queue.stats("nowhere")
    assert PASSWORD not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("redis://", "names no server"),
        ("redis:///0", "names no server"),
        ("redis://localhost/0?clutser=true", "clutser"),
        ("redis://localhost/0?cluster=perhaps", "cluster=true"),
        ("redis://localhost/3?cluster=true", "cluster has only one"),
    ],
)
async def test_an_address_that_cannot_be_read_is_refused(url, says):
    with pytest.raises(InvalidSetting, match=says):
        await RedisQueue.open(url)


async def test_a_full_server_takes_no_task_but_lets_the_work_be_settled():
    with or_skip(lambda: RedisServer(maxmemory="6mb")) as server:
        async with await RedisQueue.open(server.url()) as queue:
            run = await start(queue, *pages(50))
            leases = await claim(queue, run, limit=10)
            bulky = (page(n, payload={"text": "x" * 900}) for n in range(20_000))
            with pytest.raises(QueueFull, match="maxmemory"):
                await queue.enqueue(run.id, bulky)
            before, refused = await queue.stats(run.id), False
            while not refused:  # the memory that the call itself used is free again
                before = await queue.stats(run.id)
                try:
                    await queue.enqueue(run.id, islice(bulky, 5))
                except QueueFull:
                    refused = True
            assert await queue.stats(run.id) == before
            assert await queue.settle([Done(lease) for lease in leases]) == [Fate.ACCEPTED] * 10
            assert len(await claim(queue, run, limit=5)) == 5


@pytest.fixture
async def full():
    """A queue whose server is full, with a run, some leases, and a note."""
    with or_skip(lambda: RedisServer(append=True)) as server:
        async with await RedisQueue.open(server.url()) as queue:
            run = await start(queue, *pages(200), host_delay=ZERO)
            leases = await claim(queue, run, limit=20)
            await queue.write_notes("turns", {"whose": b"mine"})
            await asyncio.to_thread(fill, server)
            yield Full(server, queue, run, leases)


@dataclass(frozen=True)
class Full:
    server: RedisServer
    queue: RedisQueue
    run: Run
    leases: list[Lease]


def fill(server):
    """Limit the memory of the server below what it uses, also after a restart."""
    server._settings["maxmemory"] = "900kb"
    server.cli("CONFIG", "SET", "maxmemory", "900kb")


async def is_full(full):
    with pytest.raises(QueueFull, match="maxmemory"):
        await full.queue.enqueue(full.run.id, pages(300))


async def test_on_a_full_server_leases_are_kept_workers_are_heard_and_work_is_settled(full):
    queue, leases = full.queue, full.leases
    assert await queue.extend(leases) == [Fate.ACCEPTED] * 20
    await queue.beat("worker-1", run_id=full.run.id)
    assert [worker.worker_id for worker in await queue.workers(full.run.id)] == ["worker-1"]
    follow = [page("new", step="never seen", partition="before")]
    assert await queue.settle([Done(leases[0], items=[1], follow=follow)]) == [Fate.ACCEPTED]
    assert await queue.settle([Retry(leases[1], "status 503", slow_host=SECOND)]) == [Fate.ACCEPTED]
    assert await queue.abandon("worker-1") == 18
    assert await queue.reclaim() == 0
    await is_full(full)


async def test_a_full_server_that_was_restarted_leases_its_tasks(full):
    await asyncio.to_thread(full.server.restart)
    for _ in range(3):
        assert len(await claim(full.queue, full.run, limit=5)) == 5
    await is_full(full)


async def test_a_full_server_leases_the_pages_of_a_run_with_a_page_limit(full):
    limit = PageLimit(full.queue, full.run.id, 25)
    for _ in range(2):
        async with limit.lock() as fence:
            assert await limit.remaining() == 5
            assert len(await claim(full.queue, full.run, limit=5, fence=fence)) == 5
        assert await full.queue.settle([Done(lease) for lease in full.leases[:5]])
        limit = PageLimit(full.queue, full.run.id, 30)
    await is_full(full)


async def test_a_full_server_can_be_steered_and_its_notes_renewed(full):
    queue = full.queue
    note = (await queue.notes("turns"))["whose"]
    assert await queue.swap_note("turns", "whose", b"yours", stamp=note.stamp)
    assert (await queue.pause(full.run.id)).state is RunState.PAUSED
    assert (await queue.resume(full.run.id)).state is RunState.RUNNING
    await queue.pause_host("a.example", MINUTE)
    await queue.slow_host("a.example", SECOND)
    with pytest.raises(QueueFull):
        await queue.write_notes("turns", {"another": b"x"})
    await is_full(full)
    await queue.purge(full.run.id)
    assert await queue.runs() == []


@pytest.mark.usefixtures("redis_url")  # emptied: a queue that is there already can be opened for reading
async def test_a_replica_cannot_be_written(redis):
    with or_skip(lambda: RedisServer(settings={"replicaof": f"127.0.0.1 {redis.port}"})) as replica:
        said = await refusal(replica.url(), QueueReadOnly, patience=5 * SECOND)
    assert "replica" in said


@pytest.mark.long
async def test_after_a_failover_the_connections_to_what_was_the_primary_are_closed():
    with or_skip(RedisServer) as server:
        async with await RedisQueue.open(server.url()) as queue:
            run = await start(queue, page())
            before = await queue._server.command("CLIENT", "ID")
            await queue._server.command("REPLICAOF", "127.0.0.1", free_port())
            with pytest.raises(QueueReadOnly):
                await claim(queue, run)
            assert await queue._server.command("CLIENT", "ID") != before
            await queue._server.command("REPLICAOF", "NO", "ONE")
            assert len(await claim(queue, run)) == 1


async def test_a_key_of_another_program_leads_to_what_helps(queue, direct):
    run = await start(queue, page())
    await direct.set("{shoal:0}:1:leases", "mine")
    with pytest.raises(QueueError, match=r"database of its own.*\?namespace=NAME"):
        await claim(queue, run)


async def test_a_newer_store_is_left_alone(direct, redis_url):
    await direct.hset("{shoal:0}:meta", mapping={"version": 2001, "shards": 1})
    with pytest.raises(SchemaTooNew, match="2001"):
        await RedisQueue.open(redis_url)


async def test_a_store_with_another_number_of_shards_is_left_alone(direct, redis_url):
    await direct.hset("{shoal:0}:meta", mapping={"version": 1001, "shards": 16})
    with pytest.raises(QueueError, match="cluster=true"):
        await RedisQueue.open(redis_url)


async def test_a_cluster_needs_its_option(redis_cluster):
    with pytest.raises(QueueError, match=r"\?cluster=true"):
        await RedisQueue.open(redis_cluster.nodes[1].url())


async def test_scripts_that_the_server_has_forgotten_are_sent_again(queue, direct):
    run = await start(queue, *pages(2))
    await direct.script_flush()
    assert len(await claim(queue, run)) == 2


async def test_many_open_a_new_store_at_once(redis_url):
    queues = await asyncio.gather(*(RedisQueue.open(redis_url) for _ in range(8)))
    await asyncio.gather(*(queue.close() for queue in queues))


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"append": True, "fsync": "always"}, "costs nothing"),
        ({"append": True}, "last second"),
        ({"settings": {"save": "900 1 60 10000"}}, "900 seconds"),
        ({}, "whole queue"),
    ],
)
async def test_durability_says_what_a_crash_can_cost(settings, says):
    with or_skip(lambda: RedisServer(**settings)) as server:
        async with await RedisQueue.open(server.url()) as queue:
            found = await queue.durability()
            assert (says in found.text, found.safe) == (True, says == "costs nothing")
