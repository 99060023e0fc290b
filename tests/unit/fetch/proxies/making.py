"""Pools, notes and responses for tests."""

from datetime import timedelta

from shoal.core.http import Response
from shoal.core.model import Note
from shoal.core.proxies import ProxyRules, read_proxy_list
from shoal.fetch.proxies.pool import ProxyPool


class Clock:
    """A clock that the test sets."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


def proxies(count, scheme="http"):
    return read_proxy_list([f"{scheme}://p{number}.test:80" for number in range(count)], what="entry")


def pool(count=3, *, clock=None, proven=True, scheme="http", **rules):
    """Return a pool of proxies that have all worked, unless told otherwise."""
    made = ProxyPool(ProxyRules(**rules), proxies(count, scheme), clock=clock or Clock())
    for health in made.records():
        if proven:
            health.record_page(0.1, 0.0)
    return made


def named(pool, number):
    return next(one for one in pool.records() if one.proxy.name.endswith(f"//p{number}.test:80"))


def number_of(health):
    return int(health.proxy.name.partition("//p")[2].partition(".")[0])


class Board:
    """Notes in memory, with their own clock."""

    def __init__(self):
        self.now, self._stamp, self._kept = 0.0, 0, {}

    async def notes(self, topic, keys=None):
        return {
            key: Note(value=value, stamp=stamp, age=timedelta(seconds=self.now - at))
            for (where, key), (value, stamp, at, end) in self._kept.items()
            if where == topic and self.now < end and (keys is None or key in keys)
        }

    async def write_notes(self, topic, values, *, ttl=None):
        for key, value in values.items():
            self._write(topic, key, value, ttl)

    async def swap_note(self, topic, key, value, *, stamp, ttl=None):
        found = (await self.notes(topic, [key])).get(key)
        if (found.stamp if found else None) != stamp:
            return None
        self._write(topic, key, value, ttl)
        return (await self.notes(topic, [key]))[key]

    def text(self):
        return b" ".join(value for value, *_ in self._kept.values())

    def _write(self, topic, key, value, ttl):
        self._stamp += 1
        end = self.now + ttl.total_seconds() if ttl else float("inf")
        self._kept[topic, key] = (value, self._stamp, self.now, end)


class Inner:
    """A fetcher that responds as the test sets it, and records the proxies of its requests."""

    def __init__(self, answer=lambda request: 200):
        self.answer, self.requests, self.closed = answer, [], False

    async def fetch(self, request):
        self.requests.append(request)
        said = self.answer(request)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Response) else Response(url=request.url, status=said)

    async def close(self):
        self.closed = True

    def names(self):
        return [request.proxy and request.proxy.name for request in self.requests]
