"""Pools, notes and answers that tests make up."""

from datetime import timedelta

from shoal.core.exchange import Response
from shoal.core.model import Note
from shoal.core.ways import ProxyRules, read_ways
from shoal.fetch.proxies.pool import Pool


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self):
        self.now = 1_000.0

    def __call__(self):
        return self.now


def ways(count, scheme="http"):
    return read_ways([f"{scheme}://p{number}.test:80" for number in range(count)], what="entry")


def pool(count=3, *, clock=None, proven=True, scheme="http", **rules):
    """Return a pool of proxies that have all worked, unless told otherwise."""
    made = Pool(ProxyRules(**rules), ways(count, scheme), clock=clock or Clock())
    for standing in made.standings():
        if proven:
            standing.served(0.1, 0.0)
    return made


def named(pool, number):
    return next(one for one in pool.standings() if one.way.name.endswith(f"//p{number}.test:80"))


def number_of(standing):
    return int(standing.way.name.partition("//p")[2].partition(".")[0])


class Board:
    """Notes in memory, by a clock of their own."""

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
    """A fetcher that answers as it is told, and remembers by which proxies it was asked."""

    def __init__(self, answer=lambda request: 200):
        self.answer, self.asked, self.closed = answer, [], False

    async def fetch(self, request):
        self.asked.append(request)
        said = self.answer(request)
        if isinstance(said, Exception):
            raise said
        return said if isinstance(said, Response) else Response(url=request.url, status=said)

    async def close(self):
        self.closed = True

    def names(self):
        return [request.way and request.way.name for request in self.asked]
