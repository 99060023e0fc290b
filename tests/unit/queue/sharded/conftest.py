"""A queue on two SQLite files that stand for servers; each of them can be switched off."""

from functools import partial

import pytest

from shoal.core.errors import QueueUnavailable
from shoal.queue.sharded.members import Member
from shoal.queue.sharded.queue import ShardedQueue
from shoal.queue.sqlite.queue import SqliteQueue
from tests.conformance.backends import VirtualClock


class Server(Member):
    """A server that can be switched off."""

    is_off = False

    async def call(self, verb):
        if self.is_off:
            self.is_away = True
            raise QueueUnavailable(self.name, "it is switched off")
        return await super().call(verb)


class Site:
    """Files for servers, and the queues that were opened on them."""

    def __init__(self, folder):
        self._folder = folder
        self.clock = VirtualClock()
        self.opened = []

    async def open(self, *names, **files):
        """Open the servers with these names; `files` has those whose file has another name."""
        files = dict.fromkeys(names) | files or {"one": None, "two": None}
        return await self.open_servers([self.make_server(name, file) for name, file in files.items()])

    async def open_servers(self, servers):
        queue = await ShardedQueue.open(servers)
        self.opened.append(queue)
        return queue

    def make_server(self, name, file=None):
        return Server(name, partial(SqliteQueue.open, self.file(file or name), now=self.clock.now))

    def file(self, name):
        return self._folder / f"{name}.db"

    async def close(self):
        for queue in self.opened:
            await queue.close()


@pytest.fixture
async def site(tmp_path):
    site = Site(tmp_path)
    yield site
    await site.close()


@pytest.fixture
async def queue(site):
    return await site.open()
