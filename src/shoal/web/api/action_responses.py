"""Responses of the API routes that change something, and of the health checks."""

from typing import Any

from shoal.web.api.responses import ResponseModel


class RefusedRow(ResponseModel):
    """An entry that could not be queued, and why."""

    where: str
    text: str
    reason: str


class EnqueueResponse(ResponseModel):
    """What was queued, and the command that starts workers for it."""

    status: str
    run_id: str
    enqueued: int
    duplicate: int
    known: int
    invalid: int
    worker_command: str
    refused: list[RefusedRow]


class RunStateResponse(ResponseModel):
    """A run and its new state."""

    run_id: str
    state: str


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
    """How many dead letters went back to pending."""

    run_id: str
    replayed: int


class DropResponse(ResponseModel):
    """How many dead letters were dropped."""

    run_id: str
    dropped: int


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
