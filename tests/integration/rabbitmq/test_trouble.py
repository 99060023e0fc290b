"""Trouble with the servers reaches the caller as Shoal's own errors, which say what to do."""

import logging
import re

import aiormq
import msgspec
import pytest

from shoal.core.errors import (
    InvalidSetting,
    MissingDriver,
    QueueError,
    QueueFull,
    QueueRefused,
    QueueUnavailable,
    SchemaTooNew,
)
from shoal.core.events import QUEUE_AWAY, event_of
from shoal.core.model import MINUTE, SECOND, Done, Fate
from shoal.queue.open import open_queue
from shoal.queue.rabbitmq import address
from shoal.queue.rabbitmq.queue import RabbitQueue
from shoal.queue.redis.queue import RedisQueue
from shoal.registry.extras import install_command
from tests.conformance.helpers import claim, claim_all, page, pages, start
from tests.conftest import or_skip
from tests.servers.process import free_port
from tests.servers.redis import RedisServer

PASSWORD = "correct-horse"
IMPATIENT = SECOND / 3


async def refusal(url, kind, patience=IMPATIENT):
    """Open a queue that cannot be opened, and return the message of the error."""
    with pytest.raises(kind) as caught:
        await RabbitQueue.open(url, patience=patience)
    said = str(caught.value)
    assert PASSWORD not in said
    return said


async def test_nobody_listens(redis_url):
    url = f"amqp://guest:{PASSWORD}@127.0.0.1:{free_port()}/?state={redis_url}"
    assert "amqp://guest:…@" in await refusal(url, QueueUnavailable)


async def test_a_broker_that_is_away_is_reported_like_every_other_queue(redis_url, caplog):
    url = f"amqp://guest:{PASSWORD}@127.0.0.1:{free_port()}/?state={redis_url}"
    said = await refusal(url, QueueUnavailable, patience=SECOND)
    assert ".." not in said
    told = [record for record in caplog.records if event_of(record) == QUEUE_AWAY]
    assert told
    assert all(record.levelno == logging.WARNING for record in told)
    assert all("Waiting for the queue at amqp://guest:…@" in record.getMessage() for record in told)


async def test_no_redis_listens(rabbitmq):
    url = rabbitmq.with_state(f"redis://:{PASSWORD}@127.0.0.1:{free_port()}/0")
    assert "redis://" in await refusal(url, QueueUnavailable)


@pytest.mark.parametrize("user", [f"guest:{PASSWORD}", "nobody:guest"])
async def test_a_wrong_password_is_refused_at_once(rabbitmq, redis_url, user):
    url = f"amqp://{user}@127.0.0.1:{rabbitmq.port}/?state={redis_url}"
    assert "Check the user, password" in await refusal(url, QueueRefused, patience=MINUTE)


async def test_a_virtual_host_that_is_not_there_is_refused_at_once(rabbitmq, redis_url):
    url = f"amqp://guest:guest@127.0.0.1:{rabbitmq.port}/nowhere?state={redis_url}"
    assert "nowhere" in await refusal(url, QueueRefused, patience=MINUTE)


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("amqp://", "names no server"),
        ("amqp://localhost", r"names no Redis.*state=redis://"),
        ("amqp://localhost/?state=", r"names no Redis.*state=redis://"),
        ("amqp://localhost/?state=postgres://localhost", "redis://localhost"),
        ("amqp://localhost/?state=redis://localhost&stat=1", "stat"),
        ("amqp://localhost/?state=redis://localhost%3Fcluster=true", "not in a cluster"),
        ("amqp://a,,b/?state=redis://localhost", "names no server"),
        ("amqp://a:x,b/?state=redis://localhost", "names no server"),
    ],
)
async def test_an_address_that_cannot_be_read_is_refused(url, says):
    with pytest.raises(InvalidSetting, match=says):
        await open_queue(url)


@pytest.mark.parametrize(
    ("typed", "state"),
    [
        ("redis://db/0", "redis://db/0"),
        ("redis://:a%2Fb+c@db/0", "redis://:a%2Fb+c@db/0"),
        (
            "rediss://:a%2Fb@db/0%3Fssl_ca_certs=/my%2520ca.pem",
            "rediss://:a%2Fb@db/0?ssl_ca_certs=/my%20ca.pem",
        ),
        (
            "rediss%3A%2F%2F%3Aa%252Fb%40db%2F0%3Fssl_ca_certs%3Dca.pem",
            "rediss://:a%2Fb@db/0?ssl_ca_certs=ca.pem",
        ),
    ],
)
def test_the_redis_of_an_address_keeps_its_password_and_its_options(typed, state):
    assert address.read(f"amqp://localhost/?cafile=a.pem&state={typed}").state == state


def test_an_address_may_name_several_nodes():
    found = address.read("amqps://me:a%2Fb@one:5671,two,[::1]:5673/shop?state=redis://db/0")
    assert [url.partition("?")[0] for url in found.urls] == [
        "amqps://me:a%2Fb@one:5671/shop",
        "amqps://me:a%2Fb@two/shop",
        "amqps://me:a%2Fb@[::1]:5673/shop",
    ]
    assert found.shown == "amqps://me:…@one:5671,two,[::1]:5673/shop"


async def test_a_node_that_does_not_answer_is_passed_over(rabbitmq, redis_url):
    nodes = ",".join(f"127.0.0.1:{port}" for port in (free_port(), rabbitmq.port, free_port()))
    for _ in range(3):  # whichever comes first
        url = f"amqp://guest:guest@{nodes}/?state={redis_url}"
        async with await RabbitQueue.open(url, patience=5 * SECOND) as queue:
            run = await start(queue, *pages(10))
            assert len(await claim_all(queue, run)) == 10
            await queue.purge(run.id)


async def test_without_its_driver_it_says_what_to_install(monkeypatch):
    def without(name):
        raise ModuleNotFoundError(name="aiormq")

    monkeypatch.setattr("shoal.queue.open.import_module", without)
    with pytest.raises(MissingDriver, match=re.escape(install_command("rabbitmq"))):
        await open_queue("amqp://localhost/?state=redis://localhost")


async def test_durability_says_what_a_crash_can_cost(queue):
    found = await queue.durability()
    assert "RabbitMQ" in found.text
    assert "appendonly" in found.text
    assert not found.safe


# Messages and keys of other programs


def odd_bodies(run, bundle):
    """Return messages that are no bundle of the run, and the reason given for each."""
    encode = msgspec.msgpack.encode
    return {
        b"": "no bundle",
        b"https://a.example/1": "no bundle",
        b'{"url": "https://a.example/1"}': "no bundle",
        encode([1, 2, 3]): "no bundle",
        encode([["r", 1, 1, [], [], [], [], [], [], [], [], [6]], b"short"]): "no bundle",
        bundle[:-1]: "no bundle",
        bundle.replace(b"/real", b"/fake"): "its id does not match",
        bundle.replace(run.id.encode(), b"x" * len(run.id)): "belongs to the run xxx",
    }


async def test_a_message_that_is_no_bundle_goes_to_the_dead_letter_queue(queue, depths):
    run = await start(queue, page("real"))
    bundle = (await depths.take(run, "p0")).body
    bodies = odd_bodies(run, bundle)
    for body in bodies:
        await depths.put(run, "p0", body)
    await depths.put(run, "p0", bundle)
    assert len(await claim_all(queue, run)) == 1
    for body, says in bodies.items():
        letter = await depths.take(run, "dead")
        assert letter.body == body
        assert says in letter.header.properties.headers["reason"]
    assert await depths.of(run, "p0") == 0
    assert (await queue.stats(run.id)).tasks == 1


async def test_a_bundle_that_was_changed_is_not_received(queue, depths):
    run = await start(queue, page("real"))
    bundle = (await depths.take(run, "p0")).body
    at = bundle.index(b"\xcd\0\0")  # the attempts of the task
    await depths.put(run, "p0", bundle[:at] + b"\xcd\0\x09" + bundle[at + 3 :])
    assert await claim(queue, run) == []
    assert (await queue.stats(run.id)).pending == 1
    await depths.put(run, "p0", bundle)
    assert [lease.attempt for lease in await claim(queue, run)] == [1]


async def test_a_queue_that_is_there_already_with_other_arguments_is_named(queue, rabbitmq_url, depths):
    run = await start(queue)
    name = (await depths.names(run)).prefix + "p0"
    channel = await depths.connection.channel()
    await channel.queue_declare(name, durable=True)
    with pytest.raises(QueueError, match=f"{name}.*x-queue-type.*rabbitmqctl delete_queue"):
        await queue.enqueue(run.id, pages(3))
    with pytest.raises(QueueError, match="delete_queue"):
        await claim(queue, run)
    await channel.queue_delete(name)
    async with await RabbitQueue.open(rabbitmq_url, skew=lambda: 6 * SECOND) as later:
        assert len(await claim_all(later, run)) == 3


async def test_keys_of_other_programs_in_the_same_redis_are_not_changed(queue, direct):
    await direct.set("celery", "mine")
    await direct.rpush("unacked", "mine")
    run = await start(queue, *pages(300))
    await queue.settle([Done(lease) for lease in await claim_all(queue, run)])
    await queue.purge(run.id)
    assert (await direct.get("celery"), await direct.lrange("unacked", 0, -1)) == (b"mine", [b"mine"])


async def test_a_key_of_another_program_under_our_name_is_an_error_and_stays(queue, direct):
    run = await start(queue)
    await direct.set("{shoal:0}:outgoing", "mine")
    with pytest.raises(QueueError, match="WRONGTYPE"):
        await queue.enqueue(run.id, pages(3))
    assert await direct.get("{shoal:0}:outgoing") == b"mine"
    await direct.delete("{shoal:0}:outgoing")


async def test_a_full_redis_takes_no_task_but_lets_the_work_go_on(rabbitmq):
    with or_skip(lambda: RedisServer(maxmemory="12mb")) as server:
        async with await RabbitQueue.open(rabbitmq.with_state(server.url())) as queue:
            run = await start(queue, *pages(600), *pages(300, "b.example", priority=1))
            leases = await claim(queue, run, limit=10)
            filled = 0
            while "OOM" not in fill(server, filled):
                filled += 1
            # The last write may have been refused for a few bytes that a client frees a moment later.
            server.cli("CONFIG", "SET", "maxmemory", "11mb")
            with pytest.raises(QueueFull, match="maxmemory"):
                await queue.enqueue(run.id, pages(3, "c.example"))
            assert await queue.settle([Done(lease) for lease in leases]) == [Fate.ACCEPTED] * 10
            assert len(await claim_all(queue, run, limit=200)) == 890
            await queue.purge(run.id)


def fill(server, number):
    """Write half a megabyte of other data into Redis, and return its reply."""
    try:
        return server.cli("SETRANGE", f"other:{number}", 500_000, "x")
    except Exception as error:
        return str(error)


async def test_queues_of_other_programs_are_not_changed(queue, depths):
    channel = await depths.connection.channel()
    await channel.queue_declare("theirs", durable=True)
    run = await start(queue, *pages(3))
    await queue.purge(run.id)
    assert await depths.named("theirs") == 0
    await channel.queue_delete("theirs")


async def test_a_newer_state_store_is_refused(rabbitmq_url, direct):
    await direct.hset("{shoal:0}:meta", mapping={"version": 2001, "shards": 1})
    assert "pip install --upgrade shoal" in await refusal(rabbitmq_url, SchemaTooNew)


async def test_its_state_alone_is_refused_as_a_queue(queue, redis_url):
    with pytest.raises(QueueError, match="state of a queue on RabbitMQ"):
        await RedisQueue.open(redis_url)


async def test_a_worker_that_starts_while_redis_is_full_waits_as_others_do(rabbitmq, redis_url, direct):
    async with await RabbitQueue.open(rabbitmq.with_state(redis_url)) as queue:
        run = await start(queue, page())
    await direct.config_set("maxmemory", 1)
    try:
        async with await RabbitQueue.open(rabbitmq.with_state(redis_url)) as queue:
            assert (await queue.stats(run.id)).pending == 1
    finally:
        await direct.config_set("maxmemory", 0)
    async with await RabbitQueue.open(rabbitmq.with_state(redis_url)) as queue:
        assert len(await claim(queue, run)) == 1
        await queue.purge(run.id)


async def test_a_broker_that_closes_a_new_connection_is_asked_again(rabbitmq_url, monkeypatch):
    connect, refusals = aiormq.connect, iter(range(2))

    async def close_first(url, *args, **options):
        if next(refusals, None) is not None:
            raise StopAsyncIteration  # as the driver does, whose reader has met the end
        return await connect(url, *args, **options)

    monkeypatch.setattr(aiormq, "connect", close_first)
    async with await RabbitQueue.open(rabbitmq_url) as queue:
        assert await queue.runs() == []
