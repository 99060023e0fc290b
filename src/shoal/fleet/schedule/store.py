"""The schedules in a queue: list, add, change, pause, remove, run now; for commands, programs and the API."""

from collections.abc import Mapping
from datetime import datetime
from functools import lru_cache, partial
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, InvalidSetting, RunConflict, UnknownSchedule
from shoal.core.redact import redacted
from shoal.core.values import hint
from shoal.fleet.project.file import Project
from shoal.fleet.schedule.definition import Schedule, check_name
from shoal.fleet.schedule.plan import (
    ScheduleRecord,
    Transition,
    advance,
    paused,
    run_now,
    scheduled,
)
from shoal.queue.contract import Queue

TOPIC = "schedules"
MAX_TRIES = 100


class Schedules:
    """The schedules of a queue; each is one note, and each change of it one swap.

    Those of the project file are declared by the coordinators when they start, and before they are changed.
    """

    def __init__(self, queue: Queue, project: Project) -> None:
        self._queue, self._project = queue, project
        self._origin = str(project.file or project.folder)

    @property
    def declared(self) -> dict[str, Schedule]:
        """The schedules of the project file; raises InvalidSetting."""
        where = self._project.source_of("schedules")
        return {
            check_name(where, name): Schedule.read(f"{where}.{name}", table)
            for name, table in self._project.schedules.items()
        }

    async def all(self) -> list[ScheduleRecord]:
        """Return all schedules by name, also those of the project file that are not in the queue yet."""
        notes = await self._queue.notes(TOPIC)
        found = {name: _decode(name, note.value) for name, note in notes.items()}
        for name, schedule in self.declared.items():
            found.setdefault(name, self._undeclared(name, schedule))
        return [found[name] for name in sorted(found)]

    async def get(self, name: str) -> ScheduleRecord:
        """Return one schedule; raises UnknownSchedule."""
        known = {record.name: record for record in await self.all()}
        if name not in known:
            listed = shoal_command("schedule list")
            raise UnknownSchedule(
                f"No schedule is called {name!r}. {hint(name, known)} List them with: {listed}"
            )
        return known[name]

    async def add(self, name: str, given: Mapping[str, Any]) -> ScheduleRecord:
        """Add a schedule; `given` is what its table in the project file would have. Raises InvalidSetting."""
        schedule = Schedule.read(f"schedules.{check_name('schedule', name)}", dict(given))
        record = scheduled(ScheduleRecord(name=name, table=schedule.as_table()), await self._queue.now())
        taken = name in self._project.schedules
        if taken or not await self._queue.swap_note(TOPIC, name, _encode(record), stamp=None):
            where = f" in {self._project.source_of(f'schedules.{name}')}" if taken else ""
            change = "" if taken else f" To replace it, run: {shoal_command(f'schedule remove {name}')}"
            raise InvalidInput(f"There is a schedule {name!r} already{where}.{change}")
        return record

    async def change(self, name: str, given: Mapping[str, Any]) -> ScheduleRecord:
        """Change what a schedule says; None removes a key. A later change of the project file wins."""
        before = await self.get(name)
        table = {key: value for key, value in {**before.table, **given}.items() if value is not None}
        table = Schedule.read(f"schedules.{name}", table).as_table()
        now = await self._queue.now()
        return await self.update(name, lambda record: scheduled(replace(record, table=table), now))

    async def pause(self, name: str) -> ScheduleRecord:
        """Record and begin no occurrence until it is resumed; a run that has begun goes on."""
        now = await self._queue.now()
        return await self.update(name, lambda record: paused(record, now))

    async def resume(self, name: str) -> ScheduleRecord:
        """Continue with the next occurrence after now."""
        now = await self._queue.now()
        return await self.update(
            name, lambda record: scheduled(replace(record, paused=False), now) if record.paused else record
        )

    async def run_now(self, name: str) -> ScheduleRecord:
        """Add an occurrence that is due now; the newest of the record."""
        now = await self._queue.now()
        return await self.update(name, lambda record: run_now(record, now))

    async def remove(self, name: str) -> None:
        """Forget a schedule and its history; its runs stay."""
        await self.get(name)
        if name in self._project.schedules:
            where = self._project.source_of(f"schedules.{name}")
            raise InvalidInput(
                f"{name!r} is in {where}, from where it would come back. Remove it there, or run: "
                f"{shoal_command(f'schedule pause {name}')}"
            )
        await self._queue.write_notes(TOPIC, {name: None})

    async def declare(self) -> list[str]:
        """Take over what the project file says; return the names that it cannot have: others added them.

        Schedules that this file has declared before and has no more are removed. One that was changed
        elsewhere keeps the change until the file has another.
        """
        now = await self._queue.now()
        for name, schedule in self.declared.items():
            await self.update(name, partial(self._declared_as, schedule.as_table(), now))
        taken = []
        for name, note in (await self._queue.notes(TOPIC)).items():
            record = _decode(name, note.value)
            if record.declared is None and name in self._project.schedules:
                taken.append(name)
            elif record.origin == self._origin and name not in self._project.schedules:
                await self._queue.swap_note(TOPIC, name, None, stamp=note.stamp)
        return taken

    def _declared_as(self, table: dict[str, Any], now: datetime, record: ScheduleRecord) -> ScheduleRecord:
        if record.declared is None:
            return record
        if record.declared != table or not (record.next_at or record.paused):
            record = scheduled(replace(record, table=table, declared=table), now)
        return replace(record, origin=self._origin)

    async def advance(self, record: ScheduleRecord) -> ScheduleRecord:
        """Record the occurrences of a schedule that are due."""
        now = await self._queue.now()
        if record.next_at is None or now < record.next_at:
            return record
        return await self.update(record.name, lambda found: advance(found, now), create=False)

    async def update(self, name: str, change: Transition, *, create: bool = True) -> ScheduleRecord:
        """Swap the note of a schedule for what `change` makes of it; no write if that is the same.

        Raises UnknownSchedule, and RunConflict if others change it all the time.
        """
        for _ in range(MAX_TRIES):
            note = (await self._queue.notes(TOPIC, [name])).get(name)
            declared = self.declared.get(name) if create else None
            if note is None and declared is None:
                return await self.get(name) if create else ScheduleRecord(name=name, table={})
            record = _decode(name, note.value) if note else None
            if record and record.error and not declared:
                command = shoal_command(f"schedule remove {name}")
                raise InvalidInput(
                    f"Schedule {name!r} is invalid: {record.error}. To remove it, run: {command}"
                )
            if record is None or record.error:
                record = self._undeclared(name, declared or Schedule())
            changed = change(record)
            if note and changed == record:
                return record
            if await self._queue.swap_note(TOPIC, name, _encode(changed), stamp=note.stamp if note else None):
                return changed
        raise RunConflict(name, "is being changed by many at once. Try again")

    def _undeclared(self, name: str, schedule: Schedule) -> ScheduleRecord:
        table = schedule.as_table()
        return ScheduleRecord(name=name, table=table, declared=table, origin=self._origin)


def _encode(record: ScheduleRecord) -> bytes:
    return msgspec.json.encode(record)


@lru_cache(maxsize=256)  # coordinators read all of them every second, and few have changed
def _decode(name: str, value: bytes) -> ScheduleRecord:
    """Return a schedule, with only its name and the reason if it is invalid: others still fire."""
    try:
        record = msgspec.json.decode(value, type=ScheduleRecord)
        _ = record.schedule
        return record
    except (msgspec.MsgspecError, InvalidSetting) as error:
        return ScheduleRecord(name=name, table={}, error=redacted(str(error)))
