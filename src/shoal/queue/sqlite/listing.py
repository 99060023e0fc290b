"""Tasks as they are now, page by page."""

from collections.abc import Collection, Sequence

import msgspec

from shoal.core.model import TaskState, TaskStatus
from shoal.queue.sqlite import runs
from shoal.queue.sqlite.moment import moment
from shoal.queue.sqlite.reading import Page
from shoal.queue.sqlite.rows import TaskRow
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json

PAGE = 10_000  # tasks; each page of completed ones looks through the items of the run


class StatusRow(msgspec.Struct, array_like=True, frozen=True):
    """A task and where it is."""

    id: str
    state: TaskState
    worker: str | None
    since: int | None
    attempt: int
    items: int
    task: TaskRow

    def status(self) -> TaskStatus:
        return TaskStatus(
            id=self.id,
            step=self.task.step,
            state=self.state,
            url=self.task.url,
            task=self.task.task(),
            worker_id=self.worker,
            since=None if self.since is None else moment(self.since),
            attempt=self.attempt,
            items=self.items if self.state is TaskState.COMPLETED else None,
        )


class StatusPage(msgspec.Struct, array_like=True, frozen=True):
    """Some tasks, and the last id that was looked at."""

    last: str | None
    rows: list[StatusRow]


def tasks(
    store: Store,
    after: str,
    run_id: str,
    step: str | None,
    states: Sequence[TaskState] | None,
    ids: Collection[bytes] | None,
) -> Page[str, TaskStatus]:
    """Return a page of tasks."""
    page = store.read(
        "task_read",
        StatusPage,
        run=runs.known(store, run_id).no,
        after=after,
        limit=PAGE,
        step=step,
        states=None if states is None else as_json(states),
        ids=None if ids is None else as_json([one.hex() for one in ids]),
        with_items=states is None or TaskState.COMPLETED in states,
    )
    return (None if ids is not None else page.last), [row.status() for row in page.rows]
