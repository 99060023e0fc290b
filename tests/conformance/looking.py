"""The half of the model queue that looks, and steers hosts and workers."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.core.model import (
    NOTHING,
    ZERO,
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
from shoal.queue.intake import NO_HOST, ids_of
from shoal.queue.places import check_keys, numbers_of, parts_of, place_of
from tests.conformance.ledger import REMAINING, Beat, Row, State, Tally, count, split
from tests.conformance.noting import Noting

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Looking(Noting):
    """The verbs that read the books."""

    async def stats(self, run_id: str) -> Stats:
        self.books.run(run_id)
        rows = list(self.books.of_run(run_id))
        return Stats(
            **count(rows),
            steps=split(rows, lambda row: row.entry.step),
            partitions=split(rows, lambda row: row.entry.partition),
        )

    async def items(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredItem]:
        self.books.run(run_id)
        for owner, item in list(self.books.items):
            if owner == run_id and item.id > after and step in (None, item.step):
                yield item

    async def rejects(
        self, run_id: str, *, step: str | None = None, after: int = 0
    ) -> AsyncIterator[StoredReject]:
        self.books.run(run_id)
        for owner, reject in list(self.books.rejects):
            if owner == run_id and reject.id > after and step in (None, reject.step):
                yield reject

    async def dead(
        self,
        run_id: str,
        where: DeadFilter = DeadFilter(),
        *,
        ids: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[DeadLetter]:
        begin = _moment_and_order(after)
        for row in sorted(self._dead(run_id, ids, where), key=lambda row: (row.ended_at, row.order)):
            if (_micros(row.ended_at), row.order) > begin:
                yield DeadLetter(
                    id=row.id,
                    task=row.task,
                    attempts=row.attempts,
                    error=row.history[-1].error,
                    history=tuple(row.history),
                    buried_at=row.ended_at,
                    place=place_of(_micros(row.ended_at), row.order),
                )

    async def expired(self, run_id: str, *, after: str | None = None) -> AsyncIterator[ExpiredTask]:
        self.books.run(run_id)
        begin = _order(after)
        for row in list(self.books.of_run(run_id)):
            if row.state is State.EXPIRED and row.order > begin:
                yield ExpiredTask(
                    id=row.id, task=row.task, expired_at=row.ended_at, place=place_of(row.order)
                )

    async def tasks(
        self,
        run_id: str,
        *,
        step: str | None = None,
        states: Collection[TaskState] | None = None,
        keys: Sequence[str] | None = None,
        after: str | None = None,
    ) -> AsyncIterator[TaskStatus]:
        check_keys(keys, after)
        begin = _order(after)
        run, rows = self.books.run(run_id), list(self.books.of_run(run_id))
        if keys is not None:
            ids = ids_of(run, step, keys, {row.entry.step for row in rows})
            rows = [row for row in rows if bytes.fromhex(row.id) in ids]
        for row in rows:
            is_meant = step in (None, row.entry.step) and (states is None or row.state in states)
            if is_meant and row.order > begin:
                yield _status(row)

    async def entered(self, run_id: str, ids: Collection[str]) -> set[str]:
        self.books.run(run_id)
        return {row.id for row in self.books.of_run(run_id)} & set(ids)

    async def replay(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        meant = list(self._dead(run_id, ids, where))
        for row in meant:
            self.books.revive(row)
        return len(meant)

    async def drop(
        self, run_id: str, ids: Sequence[str] | None = None, *, where: DeadFilter = DeadFilter()
    ) -> int:
        meant = list(self._dead(run_id, ids, where))
        for row in meant:
            row.state, row.ended_at = State.DROPPED, self.books.now()
        return len(meant)

    def _dead(self, run_id: str, ids: Sequence[str] | None, where: DeadFilter) -> Iterator[Row]:
        self.books.run(run_id)
        for row in list(self.books.of_run(run_id)):
            if row.state is State.DEAD and (ids is None or row.id in ids) and _meets(row, where):
                yield row

    # Hosts and workers

    async def hosts(
        self, run_id: str | None = None, *, after: str | None = None
    ) -> AsyncIterator[HostStatus]:
        rows: Iterable[Row] = self.books.rows.values()
        if run_id is not None:
            self.books.run(run_id)
            rows = self.books.of_run(run_id)
        counts = split((row for row in rows if row.entry.host != NO_HOST), lambda row: row.entry.host)
        known = counts.keys() if run_id else {*counts, *self.books.hosts} - {NO_HOST}
        now = self.books.now()
        for name in sorted(name for name in known if name > (after or "")):
            host = self.books.hosts[name]
            paused = host.paused_until - now if host.paused_until else ZERO
            yield HostStatus(
                host=name,
                counts=counts.get(name, Counts()),
                delay=max(host.delay, host.slowdown) or None,
                paused_for=paused if paused > ZERO else None,
                place=name,
            )

    async def pause_host(self, host: str, duration: timedelta) -> None:
        if not duration:
            self.books.hosts[host].paused_until = None
        self.books.pause(host, duration)

    async def slow_host(self, host: str, delay: timedelta) -> None:
        self.books.slow_by_hand(host, delay)

    async def beat(
        self, worker_id: str, *, run_id: str, state: str = "running", info: Mapping[str, Any] = NOTHING
    ) -> None:
        self.books.run(run_id)
        self.books.beats[run_id, worker_id] = Beat(state, info, self.books.now())

    async def workers(self, run_id: str | None = None) -> Sequence[WorkerStatus]:
        if run_id is not None:
            self.books.run(run_id)
        return [
            self._worker(owner, worker_id, beat)
            for (owner, worker_id), beat in self.books.beats.items()
            if run_id in (None, owner)
        ]

    def _worker(self, run_id: str, worker_id: str, beat: Beat) -> WorkerStatus:
        tally = self.books.tallies.get((run_id, worker_id), Tally())
        held = [row for row in self.books.held_by(worker_id) if row.run_id == run_id]
        return WorkerStatus(
            worker_id=worker_id,
            run_id=run_id,
            state=beat.state,
            info=beat.info,
            last_beat=self.books.now() - beat.at,
            leased=len(held),
            completed=tally.completed,
            failed=tally.failed,
            items=tally.items,
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
        place=place_of(row.order),
    )


def _order(after: str | None) -> int:
    return 0 if after is None else numbers_of(after, parts_of(after, 1))[0]


def _moment_and_order(after: str | None) -> tuple[int, ...]:
    return () if after is None else tuple(numbers_of(after, parts_of(after, 2)))


def _micros(moment: datetime) -> int:
    return (moment - EPOCH) // timedelta(microseconds=1)


def _meets(row: Row, where: DeadFilter) -> bool:
    """Say whether a dead letter meets every condition given."""
    return (
        where.step in (None, row.entry.step)
        and where.partition in (None, row.entry.partition)
        and where.host in (None, row.entry.host)
        and (where.error is None or where.error in row.history[-1].error)
        and (where.buried_before is None or row.ended_at < where.buried_before)
        and (where.buried_after is None or row.ended_at > where.buried_after)
    )
