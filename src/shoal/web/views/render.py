"""Rendering of pages: every page shows the queue, its status, and the equivalent command."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from shoal.core.commands import shoal_command
from shoal.core.errors import QueueUnavailable
from shoal.core.redact import redacted
from shoal.fleet.status.rows.letters import invalid_seed
from shoal.web.auth import may_act, principal_of
from shoal.web.context import WebContext, context_of
from shoal.web.errors import path_of
from shoal.web.views.format import FILTERS

TEMPLATES = Path(__file__).parent.parent / "templates"
STATIC = Path(__file__).parent.parent / "static"
QUEUE_TIMEOUT_SECONDS = 8.0  # that a page waits for the queue
PAGES = (
    ("Overview", "/"),
    ("Runs", "/runs"),
    ("Scrapers", "/scrapers"),
    ("Schedules", "/schedules"),
    ("Workers", "/workers"),
    ("Hosts", "/hosts"),
    ("Dead letters", "/dead"),
    ("Actions", "/actions"),
)
# Shown after an action. The URL has only the key, so nobody can inject text.
NOTICES = {
    "paused": "Paused. No tasks are handed out until the run is resumed.",
    "resumed": "Resumed. Workers notice within a second.",
    "set": "Changed. Workers follow within two seconds.",
    "accepted": "Accepted. Later runs are compared with this one.",
    "not accepted": "No longer accepted.",
    "cancelled": "Cancelled. No more tasks are handed out; the items are kept.",
    "replayed": "Dead letters replayed: {count}.",
    "delayed": "Dead letters replayed: {count}. They are tried when their delay is over.",
    "dropped": "Dead letters dropped: {count}.",
    "started": "Started. Tasks queued: {count}.",
    "starting": "Starting. The source is still being read; its tasks appear here as they are queued.",
    "workers": "Workers started here: {count}.",
    "stopping": "Workers told to stop: {count}. They finish their running tasks first.",
    "edited": "Edited. Replay the letter to try it again.",
    "edited letters": "Dead letters edited: {count}. Replay them to try them again.",
    "purged": "Runs deleted: {count}.",
    "added": "Tasks added: {count}. Already in the run: {duplicate}. Queued by earlier runs: {known}.",
    "forgotten": "Forgotten tasks: {count}. The next run queues them again.",
    "schedule pause": "Paused. Nothing becomes due until the schedule is resumed.",
    "schedule resume": "Resumed with the next occurrence after now.",
    "schedule run now": "It begins when a coordinator sees it, after the run before.",
    "schedule edit": "Changed.",
    "host": "Saved. It applies to all workers immediately.",
}


@cache
def environment() -> Environment:
    """Return the template environment; every value is escaped."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters.update(FILTERS)
    templates.globals["shoal"] = shoal_command
    templates.globals["invalid_seed"] = invalid_seed
    return templates


def render_part(name: str, **values: Any) -> str:
    """Render a part of a page, as event streams send it."""
    return environment().get_template(f"parts/{name}.html").render(values)


@cache
def static_version() -> str:
    """Return a hash of the static files, which browsers cache for a day."""
    digest = blake2b(digest_size=6)
    for file in sorted(STATIC.rglob("*.*s")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


async def render_page(
    request: Request, template: str, *, title: str, command: str = "", status: int = 200, **values: Any
) -> HTMLResponse:
    """Render a whole page."""
    context = context_of(request)
    sample = values.pop("sample", None) or await context.sampler.fresh_sample()
    common = {
        "version": static_version(),
        "pages": PAGES,
        "root": root_of(request),
        "here": path_of(request.scope),
        "queue": queue_of(context),
        "principal": principal_of(request),
        "may_act": may_act(request),
        "notice": _notice(request),
        "live": None,
        "heading": None,
    }
    text = (
        environment()
        .get_template(template)
        .render({**common, "title": title, "command": command, "sample": sample, **values})
    )
    return HTMLResponse(text, status_code=status)


async def render_confirm(
    request: Request,
    *,
    fields: Sequence[tuple[str, Any]] = (),
    can_do: bool = True,
    is_destructive: bool = True,
    **values: Any,
) -> HTMLResponse:
    """Ask for confirmation before an action; `fields` are sent with it."""
    flags: dict[str, Any] = {"fields": fields, "can_do": can_do, "is_destructive": is_destructive}
    return await render_page(request, "confirm.html", **flags, **values)


def redirect_after(request: Request, path: str, done: str, **values: Any) -> RedirectResponse:
    """Redirect to a page after an action; the page shows a notice and the new state."""
    context_of(request).sampler.expire()
    return RedirectResponse(
        f"{root_of(request)}{path}?{urlencode({'done': done, **values})}", status_code=303
    )


def root_of(request: Request) -> str:
    """Return the path this app is mounted under, empty if none."""
    return str(request.scope.get("root_path", ""))


def queue_of(context: WebContext) -> str:
    """Return the address of the queue for display."""
    return redacted(context.app.queue_url)


@asynccontextmanager
async def queue_timeout(context: WebContext) -> AsyncIterator[None]:
    """Raise QueueUnavailable if the queue takes longer than a user waits for a page."""
    try:
        async with asyncio.timeout(QUEUE_TIMEOUT_SECONDS):
            yield
    except TimeoutError as error:
        raise QueueUnavailable(
            queue_of(context), f"no response within {QUEUE_TIMEOUT_SECONDS:g} s"
        ) from error


def _notice(request: Request) -> str:
    text = NOTICES.get(request.query_params.get("done", ""), "")
    return text.format_map({name: _shown_count(request, name) for name in ("count", "duplicate", "known")})


def _shown_count(request: Request, name: str) -> str:
    value = request.query_params.get(name, "")
    return f"{int(value):,}" if value.isdecimal() and len(value) < 12 else "some"
