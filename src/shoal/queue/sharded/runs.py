"""The runs: each exists on every server under the same id. The home decides; the others have copies."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import TypeVar

from shoal.core.errors import QueueError, QueueUnavailable, UnknownRun
from shoal.core.model import Run, RunSettings, RunState
from shoal.queue.contract import Queue
from shoal.queue.sharded.layout import RunServers
from shoal.queue.sharded.members import Call, Member, Members, gather

REPAIR_TIMEOUT = timedelta(seconds=3)
Result = TypeVar("Result")


class ShardedRuns:
    """Creates, finds and changes runs on all servers."""

    def __init__(self, members: Members) -> None:
        self._members = members
        self.servers = RunServers(members)

    async def start(self, scraper: str, settings: RunSettings, run_id: str | None) -> Run:
        """Create a run, or return the one with this id; raises RunConflict."""
        run = await self._members.home.call(
            lambda queue: queue.start_run(scraper, settings=settings, run_id=run_id)
        )
        await self.servers.check(run.id)
        await gather(self.introduce(member, run) for member in self._members.others)
        return run

    async def find(self, run_id: str) -> Run:
        """Return a run; raises UnknownRun."""
        home = self._members.home
        if not home.is_away:
            with suppress(QueueUnavailable):
                return await self._find_at_home(run_id)
        for member in self._members.others:
            with suppress(QueueUnavailable, UnknownRun):
                return await member.call(lambda queue: queue.run(run_id))
        return await self._find_at_home(run_id)

    async def _find_at_home(self, run_id: str) -> Run:
        try:
            return await self._members.home.call(lambda queue: queue.run(run_id))
        except UnknownRun:
            # It may be of the time when another server was the only one.
            for member in self._members.others:
                with suppress(UnknownRun):
                    return await member.call(lambda queue: queue.run(run_id))
            raise

    async def every(self) -> list[Run]:
        """Return all runs, the newest first."""
        found: dict[str, Run] = {}
        # Each server has all of them, and the home knows best.
        replies = (await self._members.call_reachable(dict.fromkeys(self._members, _runs))).given
        for member in self._members:
            for run in replies.get(member, ()):
                found.setdefault(run.id, run)
        order = {run_id: number for number, run_id in enumerate(found)}
        return sorted(found.values(), key=lambda run: (run.started_at, -order[run.id]), reverse=True)

    async def introduce(self, member: Member, run: Run) -> None:
        """Create a run on a server that lacks it, and give it the settings and the state of the home's."""
        await member.call(lambda queue: give(queue, run))

    async def on(self, member: Member, run_id: str, verb: Callable[[Queue], Awaitable[Result]]) -> Result:
        """Call a verb about a run; a server that lacks the run is given it."""
        return await member.call(self.giving(run_id, verb))

    async def change(self, verb: Call[Run]) -> Run:
        """Change a run at its home, then on the other servers."""
        run = await self._members.home.call(verb)
        await gather(self.introduce(member, run) for member in self._members.others)
        return run

    def giving(self, run_id: str, verb: Callable[[Queue], Awaitable[Result]]) -> Call[Result]:
        """Return a verb about a run that gives the run to a server that lacks it."""

        async def call(queue: Queue) -> Result:
            try:
                return await verb(queue)
            except UnknownRun:
                await give(queue, await self.find(run_id))
            return await verb(queue)

        return call

    async def repair(self, run_id: str) -> None:
        """Give servers that missed a change of a run the home's state."""
        if self._members.home.is_away:
            return
        # A server that does not respond is repaired the next time.
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(REPAIR_TIMEOUT.total_seconds()):
                run = await self._members.home.call(lambda queue: queue.run(run_id))
                await gather(self.introduce(one, run) for one in self._members.others if not one.is_away)

    async def purge(self, run_id: str) -> None:
        """Delete a run on all servers, last at its home; raises UnknownRun."""
        await self.find(run_id)

        async def purge(queue: Queue) -> None:
            with suppress(UnknownRun):
                await queue.purge(run_id)

        await gather(member.call(purge) for member in self._members.others)
        await self._members.home.call(purge)
        await self.servers.drop(run_id)


async def _runs(queue: Queue) -> Sequence[Run]:
    return await queue.runs()


async def give(queue: Queue, wanted: Run) -> None:
    """Create a run on a server that lacks it, and give it the settings and the state of the original."""
    found = await queue.start_run(wanted.scraper, settings=wanted.settings, run_id=wanted.id)
    settings = wanted.settings
    if found.settings != settings:
        await queue.change_run(
            wanted.id,
            host_delay=settings.host_delay,
            per_host=settings.per_host,
            max_attempts=settings.max_attempts,
        )
    if (found.state, found.reason) == (wanted.state, wanted.reason):
        return
    match wanted.state:
        case RunState.RUNNING:
            await queue.resume(wanted.id)
        case RunState.PAUSED:
            if found.state is RunState.PARTIAL:
                await queue.resume(wanted.id)
            await queue.pause(wanted.id)
        case RunState.PARTIAL:
            if found.state is RunState.PARTIAL:
                await queue.resume(wanted.id)
            await queue.finish(wanted.id, wanted.reason)
        case RunState.CANCELLED:
            await queue.cancel(wanted.id)
