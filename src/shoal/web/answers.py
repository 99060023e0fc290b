"""Answers to what cannot be done: JSON for programs, a page for people, and never a secret."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response

from shoal.core.errors import (
    InvalidInput,
    NobodyListens,
    NotAnswered,
    QueueFull,
    QueueReadOnly,
    QueueRefused,
    QueueUnavailable,
    RunConflict,
    ScraperBusy,
    ShoalError,
    TaskDied,
    UnknownLetter,
    UnknownRun,
    UnknownScraper,
    UnknownTask,
    shorten,
)
from shoal.web.plain import rendered
from shoal.web.site import site_of

FOR_PROGRAMS = ("/api", "/metrics", "/live", "/healthz", "/readyz")
KINDS = {404: "NotFound", 405: "MethodNotAllowed", 413: "TooLarge"}


class Refused(HTTPException):
    """A request that is not carried out, with a word for programs and a sentence for people."""

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.kind = kind


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path within this app, wherever it is mounted."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) or "/" if root and path.startswith(root) else path


def is_for_programs(path: str) -> bool:
    """Tell whether a path is asked by programs, which want JSON."""
    return any(path == start or path.startswith(f"{start}/") for start in FOR_PROGRAMS)


def trouble(
    scope: Mapping[str, Any],
    status: int,
    kind: str,
    message: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return what tells that a request was not carried out, and why."""
    if is_for_programs(path_of(scope)):
        return JSONResponse({"error": kind, "message": message}, status, headers)
    root = str(scope.get("root_path", ""))
    page = rendered("refused.html", status=status, kind=kind, message=message, root=root)
    return HTMLResponse(page, status, headers)


def status_of(error: ShoalError) -> int:
    """Return the status that an error is answered with."""
    match error:
        case UnknownRun() | UnknownLetter() | UnknownTask() | UnknownScraper():
            return 404
        case RunConflict() | ScraperBusy():
            return 409
        case InvalidInput():
            return 422
        case TaskDied():
            return 502
        case QueueUnavailable() | QueueRefused() | QueueReadOnly() | QueueFull() | NobodyListens():
            return 503
        case NotAnswered():
            return 504
        case _:
            return 500


def add_handlers(app: FastAPI) -> None:
    """Have every error of a route answered in one of these ways."""
    app.add_exception_handler(ShoalError, _shoal_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)


async def _shoal_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ShoalError)
    message = site_of(request).redact(str(error))
    return trouble(request.scope, status_of(error), type(error).__name__, message)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = error.kind if isinstance(error, Refused) else KINDS.get(error.status_code, "Refused")
    message = site_of(request).redact(_words(request, error))
    return trouble(request.scope, error.status_code, kind, message, error.headers)


def _words(request: Request, error: HTTPException) -> str:
    if isinstance(error, Refused):
        return error.detail
    path = shorten(path_of(request.scope))
    match error.status_code:
        case 404:
            return f"There is nothing at {path}. What there is: /api/openapi.json"
        case 405:
            return f"{path} is not asked with {request.method}. What there is: /api/openapi.json"
        case _:
            return str(error.detail)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = _place(first["loc"])
    words = "is not known" if first["type"] == "extra_forbidden" else _sentence(first)
    message = site_of(request).redact(f"{place} {words}".strip())
    return trouble(request.scope, 422, "InvalidInput", message)


def _sentence(found: Mapping[str, Any]) -> str:
    if found["type"] == "json_invalid":
        return f"is not JSON: {found.get('ctx', {}).get('error', '')}"
    text = str(found["msg"]).removeprefix("Value error, ")
    return f"cannot be used: {text[:1].lower()}{text[1:]}"


def _place(location: Sequence[Any]) -> str:
    """Return where something stands, as a caller would write it: `tasks[3].priority`."""
    source, *steps = location
    words = ""
    for step in steps:
        words += f"[{step}]" if isinstance(step, int) else f".{step}"
    return shorten(words.lstrip(".")) or f"The {source}"
