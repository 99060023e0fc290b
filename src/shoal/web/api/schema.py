"""What the API answers, field by field; the names are those of `shoal … --json`."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class Answer(BaseModel):
    """An answer; a field that is not written down here is a mistake, and a test finds it."""

    model_config = ConfigDict(extra="forbid")


class Trouble(Answer):
    """Why something was not done: a word for programs, a sentence for people."""

    error: str
    message: str


class Listed(Answer, Generic[T]):
    """A page of a list; hand `next` in as `after` to have the one behind it."""

    rows: list[T]
    next: str | None


class Counts(Answer):
    """How many tasks are in which state, and what they yielded."""

    pending: int
    delayed: int
    leased: int
    completed: int
    dead: int
    expired: int
    dropped: int
    remaining: int
    items: int
    rejected: int


class _OfRun(Answer):
    run_id: str
    scraper: str
    state: str
    reason: str | None  # why it ended with tasks left


# The fields of the last base come first.
class RunRow(Counts, _OfRun):
    """A run, in a list."""

    started_at: str


class RunInOverview(Counts, _OfRun):
    """A run at work, with its rate."""

    rate: float
    eta_seconds: int | None


class Links(Answer):
    """Links that were not followed for one reason."""

    count: int
    example: str | None


class RunStatus(RunInOverview):
    """A run, by step and by partition."""

    steps: dict[str, Counts]
    partitions: dict[str, Counts]
    not_followed: dict[str, Links]


class WorkerRow(Answer):
    """A worker as its heartbeats show it."""

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


class _OfHost(Answer):
    host: str


class HostRow(Counts, _OfHost):
    """A host and how it is treated."""

    delay_seconds: float | None
    paused_seconds: float | None


class Overview(Answer):
    """Everything at one glance, as `shoal top --json` has it."""

    runs: list[RunInOverview]
    workers: list[WorkerRow]
    hosts: list[HostRow]
    errors: dict[str, int]


class FleetStats(Answer):
    """Workers, tasks and throughput of the newest runs together."""

    at: str
    runs: dict[str, int]
    workers: dict[str, int]
    tasks: Counts
    rate: float
    errors: dict[str, int]


class ItemRow(Answer):
    """An item with where and when it was found."""

    id: int
    url: str | None
    step: str
    task_id: str
    stored_at: str
    data: Any


class RejectRow(ItemRow):
    """A reject with its reason."""

    reason: str


class LetterRow(Answer):
    """A dead letter, in a list."""

    id: str
    step: str
    url: str | None
    attempts: int
    error: str
    buried_at: str


class AttemptRow(Answer):
    """One failed try."""

    attempt: int
    worker_id: str
    ended_at: str
    error: str


class WholeLetter(LetterRow):
    """A dead letter with its payload and all its attempts."""

    payload: dict[str, Any]
    ask: str | None
    history: list[AttemptRow]


class TaskRow(Answer):
    """A task as it is now."""

    task_id: str
    step: str
    state: str
    url: str | None
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    key: str | None
    partition: str | None
    priority: int | None


class ExpiredRow(Answer):
    """A task whose time to live ran out."""

    task_id: str
    step: str
    url: str | None
    expired_at: str
    key: str | None
    partition: str | None
    priority: int | None


class StageRow(Answer):
    """What became of a record in one step."""

    state: str
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    task_id: str


class RecordRow(Answer):
    """A record's way through the steps."""

    record: str
    steps: dict[str, StageRow]


class PartitionRow(Answer):
    """A partition: what is left of it, and who has it."""

    partition: str
    pending: int
    delayed: int
    leased: int
    done: int
    dead: int
    owners: list[str]
    coming: str | None
    since_seconds: float | None


class TokenRow(Answer):
    """An API token by its name, and what is left of it."""

    token: str
    state: str
    left: int | None
    limit: int | None
    resets_in_seconds: float | None
    reserved: int
    why: str | None
    runs: list[str]


class ProxyRow(Answer):
    """A proxy as the whole fleet knows it."""

    proxy: str
    state: str
    pages: int
    dead: int
    refused: int
    slow: int
    blocked: int
    seconds: float | None
    last_fault: str | None
    benched_for: str | None
    back_in_seconds: float | None
    blocked_by: list[str]


class StaleTask(Answer):
    """A task in the hands of somebody who may be gone."""

    task_id: str
    step: str
    url: str | None
    attempt: int
    since: str | None


class StaleRow(Answer):
    """Somebody who holds tasks and has gone silent, or has held them for very long."""

    worker_id: str
    run_id: str
    leases: int
    oldest_seconds: float
    silent_seconds: float | None
    gone: bool
    why: str
    tasks: list[StaleTask]


class ScraperRow(Answer):
    """A scraper of the project; `says` is why it cannot be used."""

    name: str
    module: str
    mode: str | None
    steps: str | None
    says: str | None


class ActionRow(Answer):
    """Something that somebody did by the web."""

    id: str
    at: str
    who: str
    role: str
    action: str
    target: str
    details: dict[str, Any]
