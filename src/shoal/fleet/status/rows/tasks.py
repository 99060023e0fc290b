"""The rows of tasks, and of records on their way through the steps."""

from dataclasses import dataclass

from shoal.fleet.status.rows.row import Row


@dataclass(kw_only=True)
class TaskRow(Row):
    """A task in its current state; some stores keep only the id of a completed one."""

    task_id: str
    step: str
    state: str
    url: str | None
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    key: str | None = None
    partition: str | None = None
    priority: int | None = None


@dataclass(kw_only=True)
class ExpiredTaskRow(Row):
    """A task whose TTL ran out."""

    task_id: str
    step: str
    url: str | None
    expired_at: str
    key: str | None = None
    partition: str | None = None
    priority: int | None = None


@dataclass(kw_only=True)
class StageRow(Row):
    """What became of a record in one step."""

    state: str
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    task_id: str


@dataclass(kw_only=True)
class RecordRow(Row):
    """The progress of a record through the steps."""

    record: str
    steps: dict[str, StageRow]
