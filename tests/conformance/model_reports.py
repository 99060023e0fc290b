"""The part of the model queue with reports, dead letters, hosts and workers."""

import re
from collections import Counter
from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from shoal.core.model import (
    ZERO,
    Attempt,
    Counts,
    DeadFilter,
    DeadLetter,
    ExpiredTask,
    HostStatus,
    Stats,
    StoredItem,
    StoredReject,
    TaskState,
    TaskStatus,
    WorkerStatus,
)
from shoal.queue.intake import NO_HOST, QueuedTask, decode
from shoal.queue.paging import cursor_of, number_in, numbers_of, parts_of
from shoal.queue.requests import EditFate, LetterEdit
from tests.conformance.model_notes import ModelNotes
from tests.conformance.state import REMAINING, Heartbeat, Row, State, WorkerCounters, count, split

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ModelReports(ModelNotes):
    """The verbs for reports, dead letters, hosts and workers."""

    async def stats(self, run_id: str) -> Stats:
        self.data.run(run_id)
        rows = list(self.data.of_run(run_id))
        return Stats(
            **count(rows),
            steps=split(rows, lambda row: row.entry.step),
            partitions=split(rows, lambda row: row.entry.partition),
            left=Counter((row.entry.step, row.entry.partition) for row in rows if row.state in REMAINING),
        )

    async def items(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredItem]:
        self.data.run(run_id)
        for owner, item in list(self.data.items):
            if owner == run_id and item.id > after and step in (None, item.step):
                yield item

    async def rejects(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredReject]:
        self.data.run(run_id)
        for owner, reject in list(self.data.rejects):
            if owner == run_id and reject.id > after and step in (None, reject.step):
                yield reject

    async def _dead_letters(
        self, run_id: str, where: DeadFilter, ids: Sequence[bytes] | None, after: str | None
    ) -> AsyncIterator[DeadLetter]:
        begin = _moment_and_order(after)
        for row in sorted(self._dead(run_id, ids, where), key=lambda row: (row.ended_at, row.order)):
            if (_micros(row.ended_at), row.order) > begin:
                yield DeadLetter(
                    id=row.id,
                    task=row.task,
                    attempts=row.attempts,
                    error=row.error,
                    history=tuple(row.history),
                    buried_at=row.ended_at,
                    cursor=cursor_of(_micros(row.ended_at), row.order),
                )

    async def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        self.data.run(run_id)
        begin = number_in(after)
        for row in list(self.data.of_run(run_id)):
            if row.state is State.EXPIRED and row.order > begin:
                yield ExpiredTask(
                    id=row.id, task=row.task, expired_at=row.ended_at, cursor=cursor_of(row.order)
                )

    async def _tasks_by_id(
        self, run_id: str, ids: Mapping[bytes, str], step: str | None, states: Collection[TaskState] | None
    ) -> AsyncIterator[TaskStatus]:
        async for status in self._tasks(run_id, step, states, None):
            if bytes.fromhex(status.id) in ids:
                yield status

    async def _tasks(
        self, run_id: str, step: str | None, states: Collection[TaskState] | None, after: str | None
    ) -> AsyncIterator[TaskStatus]:
        begin = number_in(after)
        for row in list(self.data.of_run(run_id)):
            is_meant = step in (None, row.entry.step) and (states is None or row.state in states)
            if is_meant and row.order > begin:
                yield _status(row)

    async def _entered(self, run_id: str, ids: Sequence[bytes]) -> set[str]:
        self.data.run(run_id)
        return {row.id for row in self.data.of_run(run_id)} & {one.hex() for one in ids}

    async def _replay(
        self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter, delay: timedelta
    ) -> int:
        meant = list(self._dead(run_id, ids, where))
        for row in meant:
            self.data.revive(row, delay)
        return len(meant)

    async def _drop(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> int:
        meant = list(self._dead(run_id, ids, where))
        for row in meant:
            row.state, row.ended_at = State.DROPPED, self.data.now()
        return len(meant)

    async def _edit(self, run_id: str, edits: Sequence[tuple[LetterEdit, QueuedTask]]) -> list[EditFate]:
        fates = []
        for one, entry in edits:
            found = [letter async for letter in self.dead(run_id, ids=[one.letter.id])]
            fates.append(self._edit_one(one, entry, found[0] if found else None))
        return fates

    def _edit_one(self, edit: LetterEdit, entry: QueuedTask, found: DeadLetter | None) -> EditFate:
        row = self.data.rows.get(edit.letter.id)
        if row is None or found != edit.letter:
            return EditFate.CHANGED
        if entry.id.hex() != row.id and entry.id.hex() in self.data.rows:
            return EditFate.DUPLICATE
        del self.data.rows[row.id]
        row.id, row.entry = entry.id.hex(), entry
        self.data.rows[row.id] = row
        row.history.append(Attempt(attempt=0, worker_id=edit.by, error=edit.note, ended_at=self.data.now()))
        return EditFate.EDITED

    def _dead(self, run_id: str, ids: Sequence[bytes] | None, where: DeadFilter) -> Iterator[Row]:
        self.data.run(run_id)
        named = None if ids is None else {one.hex() for one in ids}
        for row in list(self.data.of_run(run_id)):
            if row.state is State.DEAD and (named is None or row.id in named) and _meets(row, where):
                yield row

    # Hosts and workers

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        waiting, runs = (State.PENDING, State.DELAYED), self.data.runs
        rows: Iterable[Row] = (
            row
            for row in self.data.rows.values()
            if row.state not in waiting or not runs[row.run_id].state.has_ended
        )
        if run_id is not None:
            self.data.run(run_id)
            rows = self.data.of_run(run_id)
        counts = split((row for row in rows if row.entry.host != NO_HOST), lambda row: row.entry.host)
        known = counts.keys() if run_id else {*counts, *self.data.hosts} - {NO_HOST}
        now = self.data.now()
        for name in sorted(name for name in known if name > (after or "")):
            host = self.data.hosts[name]
            paused = host.paused_until - now if host.paused_until else ZERO
            yield HostStatus(
                host=name,
                counts=counts.get(name, Counts()),
                delay=max(host.delay, host.slowdown) or None,
                paused_for=paused if paused > ZERO else None,
                cursor=name,
            )

    async def pause_host(self, host: str, duration: timedelta) -> None:
        if not duration:
            self.data.hosts[host].paused_until = None
        self.data.pause(host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        self.data.slow_by_hand(host, delay)

    async def take_turn(self, host: str, gap: timedelta) -> timedelta:
        return self.data.take_turn(host, gap)

    async def _beat(self, run_id: str, beats: Sequence[tuple[str, str, str]]) -> None:
        self.data.run(run_id)
        for worker_id, state, info in beats:
            self.data.beats[run_id, worker_id] = Heartbeat(state, decode(info), self.data.now())

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        if run_id is not None:
            self.data.run(run_id)
        return [
            self._worker(owner, worker_id, beat)
            for (owner, worker_id), beat in self.data.beats.items()
            if run_id in (None, owner)
        ]

    def _worker(self, run_id: str, worker_id: str, beat: Heartbeat) -> WorkerStatus:
        counters = self.data.worker_counters.get((run_id, worker_id), WorkerCounters())
        held = [row for row in self.data.held_by(worker_id) if row.run_id == run_id]
        return WorkerStatus(
            worker_id=worker_id,
            run_id=run_id,
            state=beat.state,
            info=beat.info,
            last_beat=self.data.now() - beat.at,
            leased=len(held),
            completed=counters.completed,
            failed=counters.failed,
            items=counters.items,
        )


def _status(row: Row) -> TaskStatus:
    leased, ended = row.state is State.LEASED, row.state in (State.DEAD, State.EXPIRED, State.DROPPED)
    return TaskStatus(
        id=row.id,
        step=row.entry.step,
        state=row.state,
        url=row.entry.url,
        task=row.task,
        worker_id=row.worker_id if leased else None,
        since=row.started_at if leased else row.ended_at if ended else None,
        attempt=row.attempts if row.state in (*REMAINING, State.DEAD) else 0,
        items=row.items if row.state is State.COMPLETED else None,
        cursor=cursor_of(row.order),
    )


def _moment_and_order(after: str | None) -> tuple[int, ...]:
    return () if after is None else tuple(numbers_of(after, parts_of(after, 2)))


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _meets(row: Row, where: DeadFilter) -> bool:
    """Tell whether a dead letter meets every given condition."""
    return (
        where.step in (None, row.entry.step)
        and where.partition in (None, row.entry.partition)
        and (where.host is None or re.fullmatch(f"{re.escape(where.host.lower())}(:[0-9]+)?", row.entry.host))
        and (where.error is None or where.error in row.error)
        and (where.buried_before is None or row.ended_at < where.buried_before)
        and (where.buried_after is None or row.ended_at > where.buried_after)
    )
