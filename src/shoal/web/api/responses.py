"""Responses of the API, field by field; the names are those of `shoal … --json`."""

from typing import Any, Generic, TypeVar

from pydantic import BaseModel, ConfigDict

T = TypeVar("T")


class ResponseModel(BaseModel):
    """A response; a field that is not declared here is a bug, and a test finds it."""

    model_config = ConfigDict(extra="forbid")


class ErrorResponse(ResponseModel):
    """Why a request failed: an error code for programs, a message for people."""

    error: str
    message: str


class ListResponse(ResponseModel, Generic[T]):
    """A page of a list; send `next` as `after` to get the following page."""

    rows: list[T]
    next: str | None


class CountsResponse(ResponseModel):
    """Task counts by state, and what the tasks yielded."""

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


class _RunFields(ResponseModel):
    run_id: str
    scraper: str
    state: str
    reason: str | None  # why it ended with tasks remaining


# The fields of the last base come first.
class RunResponse(CountsResponse, _RunFields):
    """A run, in a list."""

    started_at: str


class RunInOverview(CountsResponse, _RunFields):
    """A run with its current rate; `lost` are tasks that its store no longer has."""

    lost: int
    rate: float
    eta_seconds: int | None


class SkippedLinksResponse(ResponseModel):
    """Links that were not followed for one particular reason."""

    count: int
    example: str | None
    option: str | None


class MissingPagesResponse(ResponseModel):
    """Pages that links led to and that do not exist."""

    count: int
    examples: list[str]


class FilesResponse(ResponseModel):
    """Downloaded files; `known` were stored before by this run, and `refused` is by reason."""

    stored: int
    bytes: int
    unchanged: int
    known: int
    refused: dict[str, int]


class RunHookResponse(ResponseModel):
    """The hooks of one kind of a run: how far they are, and which of them is running or has failed."""

    state: str
    token: int
    worker: str
    hook: str | None
    error: str | None


class StoreResponse(ResponseModel):
    """The size of the queue's store, and what was measured."""

    bytes: int
    text: str


class ServerResponse(ResponseModel):
    """A server of a queue on several; `counts` is null while it cannot be reached."""

    server: str
    is_home: bool
    counts: CountsResponse | None


class RunStatus(RunInOverview):
    """A run, with counts by step and by partition."""

    steps: dict[str, CountsResponse]
    partitions: dict[str, CountsResponse]
    not_followed: dict[str, SkippedLinksResponse]
    store: StoreResponse
    servers: list[ServerResponse]
    missing: MissingPagesResponse
    pages: int
    files: FilesResponse
    hooks: dict[str, RunHookResponse]
    lost_counts: bool
    unreachable: list[str]


class WorkerResponse(ResponseModel):
    """A worker, as its heartbeats report it."""

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


class _HostFields(ResponseModel):
    host: str


class HostResponse(CountsResponse, _HostFields):
    """A host with its gap and pause."""

    delay_seconds: float | None
    paused_seconds: float | None


class OverviewResponse(ResponseModel):
    """Summary of the whole queue, as `shoal top --json` prints it."""

    runs: list[RunInOverview]
    workers: list[WorkerResponse]
    hosts: list[HostResponse]
    errors: dict[str, int]
    store: StoreResponse | None


class FleetStats(ResponseModel):
    """Totals of workers, tasks and throughput of the newest runs."""

    at: str
    runs: dict[str, int]
    workers: dict[str, int]
    tasks: CountsResponse
    rate: float
    errors: dict[str, int]


class ItemResponse(ResponseModel):
    """An item with where and when it was found."""

    id: int
    url: str | None
    step: str
    task_id: str
    stored_at: str
    data: Any


class RejectRow(ItemResponse):
    """A reject with its reason."""

    reason: str


class DeadLetterResponse(ResponseModel):
    """A dead letter, in a list."""

    id: str
    step: str
    url: str | None
    key: str | None
    payload: dict[str, Any] | str  # a large one as its size
    priority: int
    attempts: int
    error: str
    buried_at: str


class AttemptRow(ResponseModel):
    """One failed attempt."""

    attempt: int
    worker_id: str
    ended_at: str
    error: str
    traceback: str | None


class FailedPageRow(ResponseModel):
    """The page that failed: its first part, if it was too large."""

    url: str
    status: int
    bytes: int
    cut: bool


class DeadLetterDetail(DeadLetterResponse):
    """A dead letter with its payload, its page and all attempts; an edit is attempt 0."""

    request: str | None
    traceback: str | None
    page: FailedPageRow | None
    history: list[AttemptRow]


class TaskResponse(ResponseModel):
    """A task in its current state."""

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


class ExpiredTaskResponse(ResponseModel):
    """A task whose TTL ran out."""

    task_id: str
    step: str
    url: str | None
    expired_at: str
    key: str | None
    partition: str | None
    priority: int | None


class StageRow(ResponseModel):
    """What became of a record in one step."""

    state: str
    worker_id: str | None
    since: str | None
    attempt: int
    items: int | None
    task_id: str


class RecordRow(ResponseModel):
    """The progress of a record through the steps."""

    record: str
    steps: dict[str, StageRow]


class PartitionRow(ResponseModel):
    """A partition: its remaining tasks and its owners."""

    partition: str
    pending: int
    delayed: int
    leased: int
    done: int
    dead: int
    owners: list[str]
    coming: str | None
    since_seconds: float | None


class TokenRow(ResponseModel):
    """An API token by name, and its remaining quota."""

    token: str
    state: str
    left: int | None
    limit: int | None
    resets_in_seconds: float | None
    reserved: int
    why: str | None
    runs: list[str]


class CacheUseRow(ResponseModel):
    """How many pages of a run were found in the cache, and how many were not."""

    run_id: str
    hits: int
    misses: int
    hit_rate: float


class CacheResponse(ResponseModel):
    """The response cache in the queue, and its use by runs."""

    entries: int
    bytes: int
    oldest_seconds: float | None
    runs: list[CacheUseRow]


class ProxyRow(ResponseModel):
    """A proxy, as the whole fleet sees it."""

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


class StaleTask(ResponseModel):
    """A task leased by a worker that may be gone."""

    task_id: str
    step: str
    url: str | None
    attempt: int
    since: str | None


class StaleRow(ResponseModel):
    """A worker that holds tasks and missed its heartbeats, or has held them for very long."""

    worker_id: str
    run_id: str
    leases: int
    oldest_seconds: float
    silent_seconds: float | None
    gone: bool
    why: str
    tasks: list[StaleTask]


class ScraperRow(ResponseModel):
    """A project scraper; `says` is why it cannot be loaded."""

    name: str
    module: str
    mode: str | None
    steps: str | None
    says: str | None
    scraper: str | None  # the name that its runs have
    settings: dict[str, Any] | None  # that differ from the defaults; durations in seconds
    seeded: bool | None  # whether the project or the scraper declares seeds
    args: list[str] | None  # the names of its arguments


class ActionRow(ResponseModel):
    """An entry of the audit log."""

    id: str
    at: str
    who: str
    role: str
    action: str
    target: str
    details: dict[str, Any]
