"""An event loop in simulated time, and a fleet that shares tokens in it."""

import asyncio
import heapq
import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

from shoal.core.http import Headers, Response
from tests.conformance.model import ModelQueue

BEGINNING = datetime(2026, 2, 15, 12, tzinfo=UTC)


class WarpLoop(asyncio.SelectorEventLoop):
    """Does not wait: when idle, the time jumps to the next timer."""

    def __init__(self):
        super().__init__()
        self._now = 1_000.0
        select = self._selector.select

        def warped(timeout=None):
            ready = select(0)
            if not ready and timeout:
                self._now += timeout
            return ready

        self._selector.select = warped

    def time(self):
        return self._now

    def moment(self):
        return BEGINNING + timedelta(seconds=self._now)


def warped(main):
    """Run a coroutine function, which gets the loop, in simulated time."""
    with asyncio.Runner(loop_factory=WarpLoop) as runner:

        async def run():
            async with asyncio.timeout(100_000):
                return await main(asyncio.get_running_loop())

        return runner.run(run())


class FarQueue(ModelQueue):
    """A queue whose calls take a while, each a different one."""

    def __init__(self, loop, chance, delay=0.003):
        super().__init__(loop.moment)
        self._chance, self._delay = chance, delay
        self.calls = Counter()
        self.pauses = []

    async def notes(self, topic, keys=None):
        await self._travel("notes")
        found = await super().notes(topic, keys)
        await self._travel("")
        return found

    async def swap_note(self, topic, key, value, *, stamp, ttl=None):
        await self._travel("swap_note")
        note = await super().swap_note(topic, key, value, stamp=stamp, ttl=ttl)
        await self._travel("")
        return note

    async def pause_host(self, host, duration):
        self.pauses.append((host, duration))

    async def _travel(self, verb):
        self.calls[verb] += 1
        await asyncio.sleep(self._chance.uniform(0, 2 * self._delay))


class Host:
    """Allows each token `limit` requests a window, and counts those that come too many."""

    def __init__(self, loop, chance, *, limit=100, window=10.0, latency=0.05, is_fixed=True, tells=True):
        self._loop, self._chance, self._latency = loop, chance, latency
        self.limit, self.window, self._is_fixed, self._tells = limit, window, is_fixed, tells
        self.used, self.finish, self.requests = Counter(), 0, 0
        self._began = {}

    async def ask(self, token):
        """Return the response to a request, after simulated delays in both directions."""
        await asyncio.sleep(self._chance.uniform(0, self._latency))
        response = self._answer(token)
        await asyncio.sleep(self._chance.uniform(0, self._latency))
        return response

    def _answer(self, token):
        number, resets_at = self._window(token)
        self.requests += 1
        self.used[token, number] += 1
        left = self.limit - self.used[token, number]
        if left < 0:
            self.used[token, number] -= 1
            self.finish += 1
        wait = resets_at - self._loop.time()
        fields = [("date", format_datetime(self._loop.moment(), usegmt=True))]
        if self._tells:
            fields += [("ratelimit-remaining", str(max(0, left))), ("ratelimit-reset", str(int(wait)))]
        return Response(url="https://api.test/", status=429 if left < 0 else 200, headers=Headers(fields))

    def _window(self, token):
        now = self._loop.time()
        if self._is_fixed:
            return int(now / self.window), (int(now / self.window) + 1) * self.window
        number, resets_at = self._began.get(token, (-1, 0.0))
        if now >= resets_at:
            number, resets_at = self._began[token] = number + 1, now + self.window
        return number, resets_at

    def shares(self):
        """Return how much of its budget was used in each window but the first and the last."""
        sums = Counter()
        for (_, number), count in self.used.items():
            sums[number] += count
        tokens = len({token for token, _ in self.used})
        return [sums[number] / (tokens * self.limit) for number in sorted(sums)[1:-1]]


class Jobs:
    """URLs to fetch, some of them later."""

    def __init__(self, count):
        self.left, self._later = count, []

    def take(self, now):
        while self._later and self._later[0] <= now:
            heapq.heappop(self._later)
            self.left += 1
        if not self.left:
            return False
        self.left -= 1
        return True

    def put_off(self, until):
        heapq.heappush(self._later, until)

    def next_due(self):
        return self._later[0] if self._later else None


def chance_of(seed):
    return random.Random(seed)
