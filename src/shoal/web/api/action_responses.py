"""Responses of the API routes that change something, and of the health checks."""

from typing import Any

from shoal.web.api.responses import ResponseModel


class RefusedRow(ResponseModel):
    """An entry that could not be queued, and why."""

    where: str
    text: str
    reason: str


class EnqueueResponse(ResponseModel):
    """What was queued, and the command that starts workers for it.

    `ids` has the id of each URL and task in the order of the request, and null for what was refused.
    """

    status: str
    run_id: str
    enqueued: int
    duplicate: int
    known: int
    invalid: int
    ids: list[str | None]
    worker_command: str
    refused: list[RefusedRow]


class RunStateResponse(ResponseModel):
    """A run and its new state."""

    run_id: str
    state: str


class LocalWorkersResponse(ResponseModel):
    """How many workers of a run are on the server's machine."""

    run_id: str
    here: int


class StoppedWorkersResponse(ResponseModel):
    """How many workers on the server's machine were told to stop."""

    run_id: str
    stopped: int


class SettingResponse(ResponseModel):
    """A setting of a run; `change` says when it may be changed: now, when resumed, or never."""

    setting: str
    value: str
    source: str
    change: str


class SettingsResponse(ResponseModel):
    """The settings of a run."""

    run_id: str
    settings: list[SettingResponse]


class PurgeResponse(ResponseModel):
    """A deleted run."""

    run_id: str
    purged: bool


class ReplayResponse(ResponseModel):
    """How many dead letters went back to pending, and after which delay."""

    run_id: str
    replayed: int
    delay_seconds: float


class DropResponse(ResponseModel):
    """How many dead letters were dropped."""

    run_id: str
    dropped: int


class LetterDifferenceRow(ResponseModel):
    """A dead letter that was edited, its new id, and what changed."""

    id: str
    new_id: str
    change: str


class EditResponse(ResponseModel):
    """How many dead letters were edited, and why others were not."""

    run_id: str
    dry_run: bool
    edited: int
    unchanged: int
    duplicate: int
    changed: int
    invalid: int
    differences: list[LetterDifferenceRow]
    reasons: list[str]


class PurgedRunRow(ResponseModel):
    """A deleted run and what it had."""

    run_id: str
    scraper: str
    state: str
    started_at: str
    tasks: int
    items: int
    dead: int
    rejected: int


class PurgeOldResponse(ResponseModel):
    """The deleted runs, and how many as old were kept."""

    dry_run: bool
    purged: int
    tasks: int
    items: int
    dead: int
    rejected: int
    unfinished: int
    in_use: int
    runs: list[PurgedRunRow]


class ForgetResponse(ResponseModel):
    """How many tasks were forgotten; the next run with `dedup` queues them again if it finds them."""

    scraper: str
    forgotten: int


class HostPauseResponse(ResponseModel):
    """A host that gets no requests for a while."""

    host: str
    paused_seconds: float


class HostDelayResponse(ResponseModel):
    """A host and the minimum gap between request starts on it."""

    host: str
    delay_seconds: float


class LinkRow(ResponseModel):
    """A link that the step would have followed."""

    url: str | None
    step: str


class ScrapeResponse(ResponseModel):
    """The result of an on-demand call."""

    run_id: str
    task_id: str
    worker_id: str | None
    items: list[Any]
    follow: list[LinkRow]
    rejected: int


class HealthResponse(ResponseModel):
    """Whether the server, or its queue, is available."""

    status: str
