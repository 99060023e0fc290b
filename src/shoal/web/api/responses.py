"""Responses that are no report: the results of actions, totals, errors. Reports return their rows."""

from dataclasses import dataclass
from typing import Any

from shoal.discover.source import Refusal
from shoal.fleet.run.letters import EditReport
from shoal.fleet.run.settings import SettingRow
from shoal.fleet.status.rows.row import Row
from shoal.fleet.status.rows.runs import CountsRow


@dataclass(frozen=True)
class ErrorResponse:
    """Why a request failed: an error code for programs, a message for people."""

    error: str
    message: str


# Shared by every route; a route declares its own ones itself.
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    401: {"model": ErrorResponse, "description": "Missing or unknown token"},
    403: {
        "model": ErrorResponse,
        "description": "A reader cannot make changes; or the request came from another site's page",
    },
    404: {"model": ErrorResponse, "description": "No such run, scraper or dead letter"},
    409: {
        "model": ErrorResponse,
        "description": "The run exists, but in another state or with other settings",
    },
    413: {"model": ErrorResponse, "description": "The body is too large"},
    421: {"model": ErrorResponse, "description": "The Host header is not allowed"},
    422: {"model": ErrorResponse, "description": "Invalid input"},
    429: {"model": ErrorResponse, "description": "Too many failed logins"},
    503: {"model": ErrorResponse, "description": "The queue cannot be reached"},
}


@dataclass(frozen=True)
class HealthResponse:
    """Whether the server, or its queue, is available."""

    status: str


@dataclass(frozen=True, kw_only=True)
class FleetStats:
    """Totals of workers, tasks and throughput of the newest runs."""

    at: str
    runs: dict[str, int]
    workers: dict[str, int]
    tasks: CountsRow
    rate: float
    errors: dict[str, int]


@dataclass(frozen=True)
class EnqueueResponse:
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
    refused: list[Refusal]


@dataclass(frozen=True)
class LocalWorkersResponse:
    """How many workers of a run are on the server's machine."""

    run_id: str
    here: int


@dataclass(frozen=True)
class StoppedWorkersResponse:
    """How many workers on the server's machine were told to stop."""

    run_id: str
    stopped: int


@dataclass(frozen=True)
class SettingsResponse:
    """The settings of a run; `change` says when each may be changed: now, when resumed, or never."""

    run_id: str
    settings: list[SettingRow]


@dataclass(frozen=True)
class AcceptResponse:
    """A run whose items were declared right."""

    run_id: str
    accepted: bool


@dataclass(frozen=True)
class PurgeResponse:
    """A deleted run."""

    run_id: str
    purged: bool


@dataclass(frozen=True)
class ReplayResponse:
    """How many dead letters went back to pending, and after which delay."""

    run_id: str
    replayed: int
    delay_seconds: float


@dataclass(frozen=True)
class DropResponse:
    """How many dead letters were dropped."""

    run_id: str
    dropped: int


@dataclass(kw_only=True)
class EditResponse(EditReport):
    """How many dead letters were edited, and why others were not."""

    __pydantic_config__ = Row.__pydantic_config__

    run_id: str
    dry_run: bool


@dataclass(frozen=True)
class ForgetResponse:
    """How many tasks were forgotten; the next run with `dedup` queues them again if it finds them."""

    scraper: str
    forgotten: int


@dataclass(frozen=True)
class HostPauseResponse:
    """A host that gets no requests for a while."""

    host: str
    paused_seconds: float


@dataclass(frozen=True)
class HostDelayResponse:
    """A host and the minimum gap between request starts on it."""

    host: str
    delay_seconds: float


@dataclass(frozen=True)
class LinkRow:
    """A link that the step would have followed."""

    url: str | None
    step: str


@dataclass(frozen=True, kw_only=True)
class ScrapeResponse:
    """The result of an on-demand call."""

    run_id: str
    task_id: str
    worker_id: str | None
    items: list[Any]
    follow: list[LinkRow]
    rejected: int
