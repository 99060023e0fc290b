"""Servers whose answers get lost, and the fixtures for a test that provides `stand`."""

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from redis import Redis

from shoal.queue.open import open_queue
from shoal.queue.rabbitmq.state import SCRIPTS as RABBITMQ_SCRIPTS
from shoal.queue.redis.server import SCRIPTS
from tests.integration.marks import postgres_mark, rabbitmq_mark, redis_mark
from tests.integration.shaky import LOST, Shaky, deaf
from tests.servers.lossy_proxy import LossyProxy
from tests.servers.postgres import USER
from tests.servers.postgres_talk import PostgresTalk
from tests.servers.redis_talk import RedisTalk


@dataclass(frozen=True)
class Stand:
    """A queue's address, the server whose answers get lost, and the address by way of a proxy on a port."""

    url: str
    port: int
    talk: type[Any]
    through: Callable[[int], str]
    mark: Callable[[str], str]


def _postgres(find: Callable[[str], Any]) -> Stand:
    database = find("postgres_database")
    return Stand(
        url=find("postgres_url"),
        port=find("postgres").port,
        talk=PostgresTalk,
        through=lambda port: f"postgresql://{USER}@127.0.0.1:{port}/{database}",
        mark=postgres_mark,
    )


def _redis(find: Callable[[str], Any]) -> Stand:
    url = find("redis_url")
    _load(url, SCRIPTS)
    return Stand(
        url=url,
        port=find("redis").port,
        talk=RedisTalk,
        through=lambda port: f"redis://127.0.0.1:{port}/0",
        mark=redis_mark,
    )


def _rabbitmq(find: Callable[[str], Any]) -> Stand:
    url = find("rabbitmq_url")
    _load(find("redis_url"), RABBITMQ_SCRIPTS)
    return Stand(
        url=url,
        port=find("redis").port,
        talk=RedisTalk,
        through=lambda port: str(find("rabbitmq").with_state(f"redis://127.0.0.1:{port}/0")),
        mark=rabbitmq_mark,
    )


def _load(url: str, scripts: dict[str, Any]) -> None:
    with Redis.from_url(url) as client:
        for script in scripts.values():  # so that every call goes by name
            client.script_load(script.text)


STANDS = {"postgres": _postgres, "redis": _redis, "rabbitmq": _rabbitmq}


@pytest.fixture
def talk(stand: Stand) -> type[Any]:
    return deaf(stand.talk)


@pytest.fixture
async def proxy(stand: Stand, talk: type[Any]) -> AsyncIterator[LossyProxy]:
    async with LossyProxy(stand.port, talk) as proxy:
        yield proxy


@pytest.fixture(params=[LOST])
async def shaky(
    request: pytest.FixtureRequest, stand: Stand, proxy: LossyProxy, talk: type[Any]
) -> AsyncIterator[Shaky]:
    async with open_queue(stand.through(proxy.port)) as queue:
        yield Shaky(queue, proxy, talk, request.param, stand.mark)
