"""What the verbs of every group share on Redis."""

from typing import Any

from shoal.core.errors import UnknownRun
from shoal.core.model import Run, RunSettings
from shoal.queue.intake import Intake
from shoal.queue.redis.notes import RedisNotes
from shoal.queue.redis.read import RedisReader
from shoal.queue.redis.runs import RunList
from shoal.queue.redis.server import Argument, RedisServer
from shoal.queue.redis.wire import run_from


class RedisQueueBase:
    """The connections, and the runs that their verbs look up."""

    def __init__(self, server: RedisServer, shards: int) -> None:
        self._server, self._shards = server, shards
        self._runs = RunList(server, shards)
        self._reader = RedisReader(server, shards)
        self._notes = RedisNotes(server, shards)
        self._intakes: dict[str, Intake] = {}

    async def run(self, run_id: str) -> Run:
        return run_from(await self._runs.fields(run_id))

    async def _once(self, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        return await self._with_known_run(self._server.once, script, shard, run_id, *args)

    async def _call(self, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        return await self._with_known_run(self._server.call, script, shard, run_id, *args)

    async def _with_known_run(self, verb: Any, script: str, shard: int, run_id: str, *args: Argument) -> Any:
        try:
            return await verb(script, shard, run_id, *args)
        except UnknownRun:
            await self._runs.introduce(run_id, shard)
        return await verb(script, shard, run_id, *args)

    async def _intake(self, run_id: str, *, refresh: bool = False) -> Intake:
        if refresh or run_id not in self._intakes:
            run = await self.run(run_id)
            self._intakes[run_id] = Intake(run_id, run.settings, run.scraper)
        return self._intakes[run_id]

    async def _intake_or_default(self, run_id: str) -> Intake:
        """Return the intake of a run, also of a purged one: its outcomes are stale, not errors."""
        try:
            return await self._intake(run_id)
        except UnknownRun:
            return Intake(run_id, RunSettings())

    async def _number(self, run_id: str) -> int:
        return int((await self._runs.fields(run_id))["number"])

    async def _now(self) -> int:
        return int(await self._server.call("clock", 0))
