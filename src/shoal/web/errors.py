"""Error responses: JSON for the API, a page for browsers, and never a secret; and pages without a login."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment, PackageLoader, StrictUndefined
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
    UnknownSchedule,
    UnknownScraper,
    UnknownTask,
)
from shoal.core.text import shorten
from shoal.core.version import VERSION
from shoal.web.context import context_of

JSON_PATHS = ("/api", "/metrics", "/live", "/healthz", "/readyz")
KINDS = {404: "NotFound", 405: "MethodNotAllowed", 413: "TooLarge"}


@cache
def _environment() -> Environment:
    # Every value is escaped, whatever the template's file name.
    return Environment(
        loader=PackageLoader("shoal.web", "templates"), autoescape=True, undefined=StrictUndefined
    )


def render_standalone(template: str, **values: object) -> str:
    """Render a page."""
    return _environment().get_template(template).render(version=VERSION, **values)


class ApiError(HTTPException):
    """A failed request, with an error code for programs and a message for people."""

    def __init__(
        self, status: int, kind: str, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(status, message, dict(headers or {}))
        self.kind = kind


def path_of(scope: Mapping[str, Any]) -> str:
    """Return the path within this app, without the mount point."""
    path, root = str(scope["path"]), str(scope.get("root_path", ""))
    return path.removeprefix(root) or "/" if root and path.startswith(root) else path


def expects_json(path: str) -> bool:
    """Whether a path is for programs, which get errors as JSON."""
    return any(path == start or path.startswith(f"{start}/") for start in JSON_PATHS)


def error_response(
    scope: Mapping[str, Any],
    status: int,
    kind: str,
    message: str,
    headers: Mapping[str, str] | None = None,
) -> Response:
    """Return an error response: JSON or a page, depending on the path."""
    if expects_json(path_of(scope)):
        return JSONResponse({"error": kind, "message": message}, status, headers)
    root = str(scope.get("root_path", ""))
    page = render_standalone("error.html", status=status, kind=kind, message=message, root=root)
    return HTMLResponse(page, status, headers)


def status_of(error: ShoalError) -> int:
    """Return the HTTP status of an error."""
    match error:
        case UnknownRun() | UnknownLetter() | UnknownTask() | UnknownScraper() | UnknownSchedule():
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
    """Register the handlers that turn errors of routes into responses."""
    app.add_exception_handler(ShoalError, _shoal_error)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid)


async def _shoal_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, ShoalError)
    message = context_of(request).redact(_text_of(error))
    return error_response(request.scope, status_of(error), type(error).__name__, message)


def _text_of(error: ShoalError) -> str:
    """Return the message of an error; there is no command here to run again."""
    if isinstance(error, QueueUnavailable) and not error.advice:
        return f"{error.fact} Nothing was lost. Try again when it is back."
    return str(error)


async def _http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    kind = error.kind if isinstance(error, ApiError) else KINDS.get(error.status_code, "ApiError")
    message = context_of(request).redact(_message(request, error))
    return error_response(request.scope, error.status_code, kind, message, error.headers)


def _message(request: Request, error: HTTPException) -> str:
    if isinstance(error, ApiError):
        return error.detail
    path = shorten(path_of(request.scope))
    match error.status_code:
        case 404:
            return f"Nothing found at {path}. See the list of routes: /api/openapi.json"
        case 405:
            return f"{path} does not allow {request.method}. See the list of routes: /api/openapi.json"
        case _:
            return str(error.detail)


async def _invalid(request: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = _field(first["loc"])
    problem = "is not known" if first["type"] == "extra_forbidden" else _describe(first)
    message = context_of(request).redact(f"{field} {problem}".strip())
    return error_response(request.scope, 422, "InvalidInput", message)


def _describe(found: Mapping[str, Any]) -> str:
    if found["type"] == "json_invalid":
        return f"is not JSON: {found.get('ctx', {}).get('error', '')}"
    text = str(found["msg"]).removeprefix("Value error, ")
    return f"is invalid: {text[:1].lower()}{text[1:]}"


def _field(location: Sequence[Any]) -> str:
    """Return the path of a field as a caller would write it: `tasks[3].priority`."""
    source, *steps = location
    words = ""
    for step in steps:
        words += f"[{step}]" if isinstance(step, int) else f".{step}"
    return shorten(words.lstrip(".")) or f"The {source}"
