"""The private RabbitMQ keeps what it confirmed and leaves nothing behind; its proxy loses answers."""

import os
import socket

import aiormq
import pytest
from aiormq.exceptions import AMQPError
from pamqp.commands import Basic

from tests.conftest import or_skip
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.rabbitmq import RabbitServer
from tests.servers.rabbitmq_talk import RabbitTalk

KEPT = Basic.Properties(delivery_mode=2)
LOST = (AMQPError, OSError, RuntimeError)


async def publish(url, name):
    async with aiormq.connect(url) as connection:
        channel = await connection.channel()
        await channel.queue_declare(name, durable=True)
        await channel.basic_publish(b"x" * 300_000, routing_key=name, properties=KEPT, mandatory=True)


async def fetch(url, name):
    async with aiormq.connect(url) as connection:
        channel = await connection.channel()
        return (await channel.basic_get(name, no_ack=True)).body


def test_a_closed_node_leaves_nothing_behind():
    server = or_skip(RabbitServer)
    server.begin()
    pids = [server.pid, server._epmd.pid]
    server.close()
    assert not server.folder.exists()
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_it_listens_on_loopback_only(unshared_rabbitmq):
    rabbitmq = unshared_rabbitmq
    ports = [rabbitmq.port, rabbitmq._dist_port, rabbitmq._epmd.port]
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("192.0.2.1", 9))  # nothing is sent
        address = probe.getsockname()[0]
    for port in ports:
        with pytest.raises(OSError, match="refused"):
            socket.create_connection((address, port), timeout=1).close()


@pytest.fixture
async def proxy(rabbitmq):
    async with LossyProxy(rabbitmq.port, RabbitTalk) as proxy:
        yield proxy


async def test_the_broker_has_what_the_publisher_never_hears_of(rabbitmq, proxy):
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/"
    async with proxy.lose_next_reply(matching=b"publish"):
        with pytest.raises(LOST):
            await publish(url, "unheard")
    assert await fetch(rabbitmq.url, "unheard") == b"x" * 300_000


async def test_a_message_whose_delivery_is_lost_was_taken(rabbitmq, proxy):
    await publish(rabbitmq.url, "taken")
    url = f"amqp://guest:guest@127.0.0.1:{proxy.port}/"
    async with proxy.lose_next_reply(matching=b"get"):
        with pytest.raises(LOST):
            await fetch(url, "taken")
    assert await fetch(rabbitmq.url, "taken") == b""
