"""The address of a queue: one server, and its namespace: extracted, checked, and displayed."""

import re
from collections.abc import Callable

import pytest

from shoal.core.errors import InvalidSetting
from shoal.queue.address import namespace_in, shown_queue, take_namespace
from shoal.queue.open import file_of, load_backend, open_queue
from shoal.queue.postgres import sql
from shoal.queue.postgres.claim import CLAIM
from shoal.queue.postgres.enqueue import ENQUEUE
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.settle import SETTLE
from shoal.queue.rabbitmq import address as rabbitmq
from shoal.queue.redis import address as redis

BAD = ("", "News", "a.b", "a/b", 'a"b', "ä", "a" * 33, "a b", "news%0A")


def _postgres(url: str) -> PostgresServer:
    from datetime import timedelta

    return PostgresServer(url, patience=timedelta(0))


READERS: dict[str, Callable[[str], object]] = {
    "sqlite:///books.db": file_of,
    "postgresql://me@db/shoal": _postgres,
    "redis://host:6379/0": redis.read,
    "amqp://me@host/?state=redis://host:6379/0": rabbitmq.read,
}


@pytest.mark.parametrize("address", READERS)
@pytest.mark.parametrize("name", BAD)
def test_a_name_that_cannot_be_used_is_refused_on_every_backend(address: str, name: str) -> None:
    with pytest.raises(InvalidSetting, match=r"^queue has a namespace that is not 1 to 32 of .*\?namespace="):
        READERS[address](f"{address}{'&' if '?' in address else '?'}namespace={name}")


@pytest.mark.parametrize("address", READERS)
def test_two_names_are_refused(address: str) -> None:
    with pytest.raises(InvalidSetting, match="more than one namespace: 'a', 'b'"):
        READERS[address](f"{address}{'&' if '?' in address else '?'}namespace=a&namespace=b")


def test_the_other_options_stay_as_they_were_written() -> None:
    assert take_namespace("host=%2Ftmp&namespace=a-1&port=5432") == ("host=%2Ftmp&port=5432", "a-1")
    assert take_namespace("namespace=a") == ("", "a")
    assert take_namespace("my_namespace=a") == ("my_namespace=a", "")


@pytest.mark.parametrize(
    ("url", "file"),
    [
        ("sqlite:///books.db", "books.db"),
        ("sqlite:///books.db?namespace=news", "books.news.db"),
        ("sqlite:////var/lib/shoal.db?synchronous=full&namespace=a_b", "/var/lib/shoal.a_b.db"),
        ("sqlite:///data.d/books?namespace=news", "data.d/books.news"),
    ],
)
def test_a_file_of_a_namespace_lies_beside_the_one_without(url: str, file: str) -> None:
    assert str(file_of(url)) == file


def test_postgres_has_a_schema_for_each_namespace_and_shows_the_name_without_the_password() -> None:
    server = _postgres("postgresql://me:se?cret@db:5432/shoal?sslmode=require&namespace=a-b")
    assert server.schema == '"shoal_a-b"'
    assert server.address == "postgresql://me:…@db:5432/shoal?namespace=a-b"
    assert server._url == "postgresql://me:se?cret@db:5432/shoal?sslmode=require"
    assert _postgres("postgresql://me@db/shoal?namespace=a")._url == "postgresql://me@db/shoal"


def test_no_sql_text_names_the_default_schema_once_it_was_moved() -> None:
    texts = [
        script.read_text() for folder in ("migrations", "functions") for _, script in sql.scripts(folder)
    ]
    texts += [*sql.QUERIES.values(), CLAIM, SETTLE, ENQUEUE]
    for text in texts:
        moved = re.sub(r"--.*", "", sql.in_schema(text, sql.schema_of("a-b")))
        assert "shoal" not in moved.replace('"shoal_a-b".', ""), moved


def test_redis_keeps_a_hash_tag_for_each_shard_of_each_namespace() -> None:
    from datetime import timedelta

    from shoal.queue.redis.server import RedisServer as RedisServer

    def tag(url: str) -> str:
        return RedisServer(url, patience=timedelta(0), skew=timedelta).tag(3)

    assert tag("redis://host/0") == "{shoal:3}"
    assert tag("redis://host?cluster=true&namespace=news") == "{shoal.news:3}"


@pytest.mark.parametrize(
    "url",
    [
        "amqp://me:secret@host/?namespace=news&state=redis://:hidden@host/0",
        "amqp://me:secret@host/?state=redis://:hidden@host/0&namespace=news",
        "amqp://me:secret@host/?state=redis%3A%2F%2F%3Ahidden%40host%2F0&namespace=news",
    ],
)
def test_rabbitmq_and_its_redis_share_the_namespace(url: str) -> None:
    address = rabbitmq.read(url)
    assert address.prefix == "news."
    assert address.shown == "amqp://me:…@host/?namespace=news"
    assert redis.read(address.state).namespace == "news"
    assert redis.read(address.state).shown == "redis://:…@host/0?namespace=news"
    assert all("namespace" not in one for one in address.urls)
    shown = shown_queue(url)
    assert namespace_in(shown) == "news"
    assert "secret" not in shown


def test_a_namespace_of_the_redis_alone_is_refused_with_what_to_write() -> None:
    with pytest.raises(InvalidSetting, match="Write &namespace=news after it"):
        rabbitmq.read("amqp://me@host/?state=redis://host/0?namespace=news")


def test_a_shown_address_keeps_the_namespace_and_hides_the_password() -> None:
    assert shown_queue("redis://:secret@host/0?namespace=a") == "redis://:…@host/0?namespace=a"
    assert shown_queue("sqlite:///books.db") == "sqlite:///books.db"


@pytest.mark.parametrize("read", [open_queue, load_backend, file_of])
@pytest.mark.parametrize("gap", [" ", ",", ", "])
def test_several_addresses_are_refused_and_the_clusters_are_named(
    read: Callable[[str], object], gap: str
) -> None:
    with pytest.raises(InvalidSetting, match="takes one address") as refused:
        read(f"sqlite:///a.db{gap}postgresql://me:secret@b/db")
    assert "redis://NODE:6379?cluster=true" in str(refused.value)
    assert "RabbitMQ cluster, amqp://" in str(refused.value)
    assert "secret" not in str(refused.value)


def test_several_nodes_in_one_address_of_redis_are_refused() -> None:
    with pytest.raises(InvalidSetting, match="name one of its nodes"):
        redis.read("redis://a:6379,b:6379/0")


def test_a_list_of_addresses_is_refused_in_python_too() -> None:
    with pytest.raises(InvalidSetting, match="use a Redis Cluster"):
        open_queue(["redis://a", "redis://b"])  # type: ignore[arg-type]


def test_the_path_of_a_file_may_have_spaces() -> None:
    assert str(file_of("sqlite:///my books.db")) == "my books.db"
