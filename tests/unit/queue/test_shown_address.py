"""The addresses of queues as they are displayed."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import ZERO
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.rabbitmq import address as rabbitmq
from shoal.queue.redis import address as redis


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://db/shoal", "postgresql://db/shoal"),
        ("postgresql://me@db:5433/shoal", "postgresql://me@db:5433/shoal"),
        ("postgresql://me:secret@db/shoal?sslmode=require", "postgresql://me:…@db/shoal"),
        ("postgresql://me:sec/ret@db/shoal", "postgresql://me:…@db/shoal"),
        ("postgresql://me:sec?ret@db/shoal", "postgresql://me:…@db/shoal"),
        ("postgresql://me:sec@ret@db/shoal", "postgresql://me:…@db/shoal"),
        ("postgresql://db/shoal?password=secret", "postgresql://db/shoal"),
        ("postgresql://me:s@db/shoal?options=a@b", "postgresql://me:…@b"),
    ],
)
def test_no_spelling_of_a_password_is_shown(url, shown):
    assert PostgresServer(url, patience=ZERO).address == shown


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@db:6379/0", "redis://:…@db:6379/0"),
        ("redis://me:sec%2Fret@db/0", "redis://me:…@db/0"),
        ("redis://db/0", "redis://db/0"),
    ],
)
def test_a_redis_is_shown_without_its_password(url, shown):
    assert redis.read(url).shown == shown


@pytest.mark.parametrize("url", ["redis://:sec/ret@db/0", "redis://:sec?ret@db/0", "rediz://:secret@db/0"])
def test_a_redis_that_is_refused_is_named_without_its_password(url):
    with pytest.raises(InvalidSetting) as refused:
        redis.read(url)
    assert "sec" not in str(refused.value)


STATE = "redis://:sta%2Fte@db/0"


@pytest.mark.parametrize(
    "url",
    [
        f"amqp://me:secret@mq/?state={STATE}",
        f"amqp://me:sec%3Fret@mq/?state={STATE}",
        f"amqp://me:secret@mq/?cafile=a.pem&state={STATE}",
        "amqp://me:secret@mq/?state=redis%3A%2F%2F%3Asta%252Fte%40db%2F0",
    ],
)
def test_a_broker_is_shown_without_its_password_and_its_redis_keeps_its_own(url):
    found = rabbitmq.read(url)
    assert (found.shown, found.state) == ("amqp://me:…@mq/", STATE)
    assert redis.read(found.state).shown == "redis://:…@db/0"


@pytest.mark.parametrize(
    "url",
    ["amqp://me:secret@mq/", "amqp://me:sec/ret@mq/", "amqp://me:secret@mq/?state=redis://:sec/ret@db/0"],
)
def test_a_broker_that_is_refused_is_named_without_any_password(url):
    with pytest.raises(InvalidSetting) as refused:
        rabbitmq.read(url)
    assert "sec" not in str(refused.value)
