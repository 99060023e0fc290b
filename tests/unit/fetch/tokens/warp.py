"""An event loop in simulated time, and a queue in it whose calls take a while."""

import asyncio
from datetime import UTC, datetime, timedelta

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

    async def notes(self, topic, keys=None):
        await self._travel()
        found = await super().notes(topic, keys)
        await self._travel()
        return found

    async def swap_note(self, topic, key, value, *, stamp, ttl=None):
        await self._travel()
        note = await super().swap_note(topic, key, value, stamp=stamp, ttl=ttl)
        await self._travel()
        return note

    async def _travel(self):
        await asyncio.sleep(self._chance.uniform(0, 2 * self._delay))
