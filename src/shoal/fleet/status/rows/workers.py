"""The rows of workers, and of the partitions, leases and hosts that they work on."""

from dataclasses import dataclass
from typing import Any

from shoal.fleet.status.rows.row import Row, TableColumns
from shoal.fleet.status.rows.runs import CountsRow, RunInOverview
from shoal.queue.contract import StoreSize


@dataclass(kw_only=True)
class WorkerRow(Row):
    """A worker, as its heartbeats report it."""

    columns = TableColumns(
        (
            *("worker_id", "run_id", "state", "steps", "partitions", "leased", "completed", "failed"),
            *("items", "last_hour", "memory", "last_beat"),
        ),
        drops=("last_hour", "partitions", "steps", "items", "memory", "failed", "last_beat", "run_id"),
        folds=("steps", "partitions"),
    )
    worker_id: str
    run_id: str
    state: str
    steps: Any
    partitions: Any
    leased: int
    completed: int
    failed: int
    items: int
    last_hour: int | None
    memory_bytes: int | None
    last_beat_seconds: float
    info: dict[str, Any]

    def cells(self) -> dict[str, Any]:
        """Return the steps and partitions in words."""
        return {"steps": join_names(self.steps), "partitions": join_names(self.partitions)}


def join_names(names: Any) -> str:
    """Return a list of names in one text; "all" if there is none."""
    return ", ".join(names) if isinstance(names, list) else names or "all"


@dataclass(kw_only=True)
class PartitionRow(Row):
    """A partition: its remaining tasks and its owners."""

    columns = TableColumns(("partition", "pending", "leased", "done", "owner", "since"), folds=("owner",))
    partition: str
    pending: int
    delayed: int
    leased: int
    done: int
    dead: int
    owners: list[str]
    coming: str | None
    since_seconds: float | None

    def cells(self) -> dict[str, Any]:
        """Return what is pending in all, and the owner in words."""
        return {
            "partition": self.partition or None,
            "pending": self.pending + self.delayed,
            "owner": ", ".join(self.owners) or (f"waits for {self.coming}" if self.coming else None),
        }


@dataclass(kw_only=True)
class StaleTaskRow(Row):
    """A task leased by a worker that may be gone."""

    task_id: str
    step: str
    url: str | None
    attempt: int
    since: str | None


@dataclass(kw_only=True)
class StaleRow(Row):
    """A worker that holds tasks and missed its heartbeats, or has held them for very long."""

    columns = TableColumns(
        ("worker_id", "run_id", "leases", "oldest", "silent", "why"), drops=("oldest", "silent", "run_id")
    )
    worker_id: str
    run_id: str
    leases: int
    oldest_seconds: float
    silent_seconds: float | None
    gone: bool
    why: str
    tasks: list[StaleTaskRow]


@dataclass(kw_only=True)
class _HostFields(Row):
    host: str


@dataclass(kw_only=True)
class HostRow(CountsRow, _HostFields):
    """A host with its gap and pause."""

    columns = TableColumns(
        ("host", "pending", "delayed", "leased", "completed", "dead", "delay", "paused"),
        drops=("delayed", "leased"),
        folds=("host",),
    )
    delay_seconds: float | None
    paused_seconds: float | None

    def cells(self) -> dict[str, Any]:
        """Return what applies to a host without a delay of its own."""
        return {} if self.delay_seconds else {"delay": "run's rate"}


@dataclass(kw_only=True)
class OverviewRow(Row):
    """Summary of the whole queue."""

    runs: list[RunInOverview]
    workers: list[WorkerRow]
    hosts: list[HostRow]
    errors: dict[str, int]
    store: StoreSize | None
