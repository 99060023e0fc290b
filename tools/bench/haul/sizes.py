"""What a store holds after a crawl: every table, index and family of keys, in bytes."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import closing

import apsw
import asyncpg
from redis.asyncio import Redis

_TABLES = """
SELECT c.relname AS name,
       pg_relation_size(c.oid) + coalesce(pg_total_relation_size(nullif(c.reltoastrelid, 0)), 0) AS bytes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'shoal' AND c.relkind IN ('r', 'i', 'm') ORDER BY 2 DESC
"""
_PAGES = "SELECT name, sum(pgsize) FROM dbstat GROUP BY 1 ORDER BY 2 DESC"
_ID = re.compile(r":(\d+|[^:]*\.[^:]*)(?=:|$)")  # a number or a host, in the name of a key
_SAMPLED = 300  # keys of a family that are measured; the others count as their mean
MIN_SHARE = 0.005  # of all bytes, below which a part is added to the others


async def sizes_of(address: str) -> Mapping[str, int]:
    """Return the bytes of each part of a store, the largest first."""
    if address.startswith("sqlite:///"):
        found = _of_sqlite(address.removeprefix("sqlite:///"))
    elif address.startswith("postgresql"):
        found = await _of_postgres(address)
    else:
        found = await _of_redis(address)
    return dict(sorted(found.items(), key=lambda part: -part[1]))


def main_parts(sizes: Mapping[str, int]) -> dict[str, int]:
    """Return the parts that matter, and the others as one."""
    least = MIN_SHARE * sum(sizes.values())
    main = {name: size for name, size in sizes.items() if size >= least}
    rest = sum(sizes.values()) - sum(main.values())
    return main | ({"others": rest} if rest else {})


def family(key: str) -> str:
    """Return the name of a key with a star for every number and host in it."""
    return _ID.sub(":*", key.partition("}")[2] or key).removeprefix(":")


async def _of_postgres(address: str) -> dict[str, int]:
    connection = await asyncpg.connect(address)
    try:
        return {row["name"]: row["bytes"] for row in await connection.fetch(_TABLES)}
    finally:
        await connection.close()


def _of_sqlite(path: str) -> dict[str, int]:
    with closing(apsw.Connection(path)) as connection:
        return {str(name): _number(size) for name, size in connection.execute(_PAGES)}


async def _of_redis(address: str) -> dict[str, int]:
    counts: Counter[str] = Counter()
    sampled: dict[str, list[int]] = {}
    async with Redis.from_url(address, decode_responses=True) as redis:
        async for key in redis.scan_iter(count=2_000):
            name = family(key)
            counts[name] += 1
            if len(sampled.setdefault(name, [])) < _SAMPLED:
                sampled[name].append(await redis.memory_usage(key, samples=20) or 0)
    return {name: round(count * _mean(sampled[name])) for name, count in counts.items()}


def _mean(values: Iterable[int]) -> float:
    known = list(values)
    return sum(known) / len(known)


def _number(value: object) -> int:
    assert isinstance(value, int)
    return value
