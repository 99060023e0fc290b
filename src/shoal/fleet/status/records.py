"""Traces records through the steps of a run: the state, holder and items of each step."""

from collections.abc import AsyncIterator, Collection, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from shoal.core.model import Run, Task, TaskState, TaskStatus
from shoal.fleet.status.rows.tasks import RecordRow, StageRow
from shoal.queue.contract import Queue, QueueReports
from shoal.queue.intake import Intake

PAGE = 1_000  # records in memory at a time

_encode = msgspec.json.Encoder(order="deterministic").encode


class Record(msgspec.Struct, frozen=True):
    """The tasks that share one name over all steps, with the state of each."""

    name: str
    stages: Mapping[str, TaskStatus]

    def row(self) -> RecordRow:
        """Return the record as `shoal records --json` reports it."""
        stages = {step: StageRow.of(stage, task_id=stage.id) for step, stage in self.stages.items()}
        return RecordRow(record=self.name, steps=stages)


async def records(
    queue: Queue,
    run_id: str,
    *,
    step: str | None = None,
    states: Collection[TaskState] | None = None,
    key: str | None = None,
) -> AsyncIterator[Record]:
    """Yield the records with a task in this step and in one of the states; each once, a page in memory.

    A record is identified by its tasks' key, else URL, else payload. With `key`, only that one is looked up.
    Some queues do not store the text of completed tasks: such a task is found by its key, and among its
    record's steps; on its own it is listed only if `states` includes completed, under its URL or its id.
    """
    run = await queue.run(run_id)
    if key is not None:
        stages = {status.step: status async for status in queue.tasks(run_id, step=step, keys=[key])}
        if stages:
            yield Record(key, stages)
        return
    steps = list((await queue.stats(run_id)).steps)
    listed: list[str] = []
    for wanted in [step] if step else steps:
        async for page in _pages(queue.tasks(run_id, step=wanted, states=states)):
            for record in await _Finder(queue, run, steps).find(page):
                if not _was_listed(record, listed, states):
                    yield record
            for status in page if states and TaskState.COMPLETED in states else ():
                if status.task is None:
                    yield Record(status.url or status.id, {status.step: status})
        listed.append(wanted)


def name_of(task: Task) -> str:
    """Return the name that identifies a record."""
    return task.key or task.url or _encode(dict(task.payload)).decode()


class _Finder:
    """Looks up records in all steps with one query."""

    def __init__(self, queue: QueueReports, run: Run, steps: Sequence[str]) -> None:
        self._queue, self._run, self._steps = queue, run, steps
        self._intake = Intake(run.id, run.settings)
        self._names: dict[str, str] = {}  # by the record's task id in a step

    async def find(self, page: Sequence[TaskStatus]) -> list[Record]:
        """Return the records of a page of tasks with all their steps."""
        for status in page:
            if status.task is not None:
                self._add(status.task)
        stages: dict[str, dict[str, TaskStatus]] = {name: {} for name in self._names.values()}
        if stages:
            async for status in self._queue.tasks(self._run.id, keys=list(stages)):
                if name := self._names.get(status.id):
                    stages[name][status.step] = status
        return [Record(name, self._ordered(found)) for name, found in stages.items() if found]

    def _add(self, task: Task) -> None:
        name = name_of(task)
        for step in self._steps:
            self._names[self._intake.entry(replace(task, step=step)).id.hex()] = name

    def _ordered(self, found: Mapping[str, TaskStatus]) -> dict[str, TaskStatus]:
        return {step: found[step] for step in self._steps if step in found}


def _was_listed(record: Record, steps: Collection[str], states: Collection[TaskState] | None) -> bool:
    """Return whether a record was already listed for an earlier step."""
    before = [record.stages[step] for step in steps if step in record.stages]
    return any(stage.task is not None and (not states or stage.state in states) for stage in before)


async def _pages(source: AsyncIterator[TaskStatus]) -> AsyncIterator[list[TaskStatus]]:
    page: list[TaskStatus] = []
    async for status in source:
        page.append(status)
        if len(page) >= PAGE:
            yield page
            page = []
    if page:
        yield page
