"""What hooks get as arguments: a request before it is sent, a task that has failed, a run."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from shoal.core.http import Headers, Response
from shoal.core.model import NOTHING, Stats, Task
from shoal.core.values import read_duration


@dataclass(slots=True)
class OutgoingRequest:
    """A request that is about to be sent. Hooks may change its URL, headers and body."""

    url: str
    headers: dict[str, str]
    body: bytes | None
    task: Task
    method: str = "GET"  # with a body a GET is sent as a POST

    def set_param(self, name: str, value: object) -> None:
        """Set a parameter in the query of the URL, in place of any of that name."""
        parts = urlsplit(self.url)
        pairs = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != name]
        self.url = urlunsplit(parts._replace(query=urlencode([*pairs, (name, str(value))])))

    def answer(
        self, body: str | bytes, *, status: int = 200, headers: Mapping[str, str] = NOTHING
    ) -> Response:
        """Return a response to use in place of the host's: return it from the hook. Text is sent as HTML."""
        kind = {"content-type": "text/html; charset=utf-8"} if isinstance(body, str) else {}
        data = body.encode() if isinstance(body, str) else body
        fields = kind | {name.lower(): value for name, value in headers.items()}
        return Response(url=self.url, status=status, headers=Headers(fields.items()), body=data)


class ErrorAction(StrEnum):
    """What becomes of a task that has failed."""

    RETRY = "retry"
    BURY = "bury"
    RELEASE = "release"


@dataclass(frozen=True, slots=True)
class ErrorDecision:
    """What an `on_error` hook has decided."""

    action: ErrorAction
    after: timedelta | None = None


@dataclass(frozen=True, slots=True)
class FailedTask:
    """A task that has failed. A hook returns one of its decisions, or None for the usual one."""

    error: Exception
    task: Task
    attempt: int  # from 1
    response: Response | None = None

    def retry(self, after: timedelta | str | None = None) -> ErrorDecision:
        """Try again, unless this was the last attempt; `after` replaces the usual delay."""
        return ErrorDecision(ErrorAction.RETRY, None if after is None else read_duration("after", after))

    def bury(self) -> ErrorDecision:
        """Make it a dead letter now."""
        return ErrorDecision(ErrorAction.BURY)

    def release(self, after: timedelta | str) -> ErrorDecision:
        """Try again later without counting an attempt: it can be released without end."""
        return ErrorDecision(ErrorAction.RELEASE, read_duration("after", after))


@dataclass(frozen=True, slots=True, kw_only=True)
class HookedRun:
    """A run at its start or end. `token` is higher in each later call: store it, and refuse a lower one."""

    id: str
    scraper: str
    token: int
    state: str  # running; at the end finished, partial or cancelled
    reason: str  # why it is partial
    stats: Stats
    args: Any  # of the run
    resources: SimpleNamespace  # of the worker that calls the hook
