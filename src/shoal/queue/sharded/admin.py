"""Administration of several servers: runs, dead letters and hosts."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Unpack

from shoal.core.errors import EditMovesServer, UnknownRun
from shoal.core.model import OUTBOX_STEP, ZERO, DeadFilter, Run, RunSettings
from shoal.queue.contract import EditFate, LetterEdit, Queue, QueueAdmin, RunLimits
from shoal.queue.intake import Intake
from shoal.queue.sharded.base import ShardedBase
from shoal.queue.sharded.links.parcels import check_step
from shoal.queue.sharded.members import Member, gather

PARCELS = DeadFilter(step=OUTBOX_STEP)


class ShardedAdmin(ShardedBase, QueueAdmin):
    """Starts, changes and deletes runs, and handles dead letters and hosts."""

    async def start_run(
        self, scraper: str, *, settings: RunSettings = RunSettings(), run_id: str | None = None
    ) -> Run:
        return await self._runs.start(scraper, settings, run_id)

    async def pause(self, run_id: str) -> Run:
        await self._deliveries.flush(run_id)
        return await self._runs.change(lambda queue: queue.pause(run_id))

    async def resume(self, run_id: str) -> Run:
        await self._find(run_id)
        await self._runs.servers.check(run_id)
        return await self._runs.change(lambda queue: queue.resume(run_id))

    async def finish(self, run_id: str, reason: str) -> Run:
        await self._deliveries.flush(run_id)
        return await self._runs.change(lambda queue: queue.finish(run_id, reason))

    async def cancel(self, run_id: str) -> Run:
        await self._deliveries.flush(run_id)
        return await self._runs.change(lambda queue: queue.cancel(run_id))

    async def change_run(self, run_id: str, **limits: Unpack[RunLimits]) -> Run:
        return await self._runs.change(lambda queue: queue.change_run(run_id, **limits))

    async def purge(self, run_id: str) -> None:
        await self._runs.purge(run_id)
        self._deliveries.forget(run_id)

    async def forget(self, scraper: str) -> int:
        return sum(await self._members.call_all(lambda queue: queue.forget(scraper)))

    async def replay(
        self,
        run_id: str,
        ids: Sequence[str] | None = None,
        *,
        where: DeadFilter = DeadFilter(),
        delay: timedelta = ZERO,
    ) -> int:
        await self._runs.servers.check(run_id)
        return await self._on_letters(
            run_id, lambda queue: queue.replay(run_id, ids, where=where, delay=delay)
        )

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        return await self._on_letters(run_id, lambda queue: queue.drop(run_id, ids, where=where))

    async def _on_letters(self, run_id: str, verb: Any) -> int:
        """Apply a verb to the dead letters of all servers; parcels among them are sent, and not counted."""
        await self._find(run_id)

        async def apply(queue: Queue) -> int:
            try:
                await queue.replay(run_id, where=PARCELS)
                return int(await verb(queue))
            except UnknownRun:
                return 0

        return sum(await self._members.call_all(apply))

    async def edit(self, run_id: str, edits: Sequence[LetterEdit]) -> list[EditFate]:
        await self._find(run_id)
        await self._runs.servers.check(run_id)
        intake = Intake(run_id, RunSettings())
        places: dict[Member, list[int]] = {}
        for place, edit in enumerate(edits):
            check_step(edit.task)
            new = self._members.owner_of(intake.entry(edit.task))
            old = self._members.owner_of_task(edit.letter.task)
            if new is not old:
                raise EditMovesServer(run_id, edit.letter.id, edit.task.url)
            places.setdefault(old, []).append(place)
        self._supply.add_priorities(run_id, (edit.task.priority for edit in edits))
        found = await gather(
            self._runs.on(member, run_id, partial(_edit, run_id, [edits[place] for place in chosen]))
            for member, chosen in places.items()
        )
        fates = [EditFate.CHANGED] * len(edits)
        for chosen, some in zip(places.values(), found, strict=True):
            for place, fate in zip(chosen, some, strict=True):
                fates[place] = fate
        return fates

    async def pause_host(self, host: str, duration: timedelta) -> None:
        await self._members.owner(host).call(lambda queue: queue.pause_host(host, duration))

    async def slow_host(self, host: str, delay: timedelta) -> None:
        await self._members.owner(host).call(lambda queue: queue.slow_host(host, delay))


async def _edit(run_id: str, edits: Sequence[LetterEdit], queue: Queue) -> list[EditFate]:
    return await queue.edit(run_id, edits)
