"""The frame around every page: which queue it is, whether it answers, and the command that does the same."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse

from shoal.core.errors import QueueUnavailable
from shoal.core.redact import redacted
from shoal.web.answers import path_of
from shoal.web.guard import guest_of, may_act
from shoal.web.shown import FILTERS
from shoal.web.site import Site, site_of

TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"
PATIENCE = 8.0  # seconds that a page waits for the queue
PAGES = (
    ("Overview", "/"),
    ("Runs", "/runs"),
    ("Workers", "/workers"),
    ("Hosts", "/hosts"),
    ("Actions", "/actions"),
)
# What a page says after a deed; its name is in the URL, so that nobody can put words there.
NOTICES = {
    "paused": "Paused: no task of the run is handed out until it is resumed.",
    "resumed": "Going on; workers notice within a second.",
    "cancelled": "Cancelled. Nothing of it is handed out again, and its items stay.",
    "replayed": "Back to pending: {count}.",
    "dropped": "Dropped for good: {count}.",
    "host": "Done; all workers obey at once.",
}


@cache
def environment() -> Environment:
    """Return the templates; whatever they show is escaped."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters.update(FILTERS)
    return made


def part(name: str, **facts: Any) -> str:
    """Return a part of a page, as it is sent to those who watch."""
    return environment().get_template(f"parts/{name}.html").render(facts)


@cache
def static_version() -> str:
    """Return a word that changes with the static files, which browsers keep for a day."""
    digest = blake2b(digest_size=6)
    for file in sorted(STATIC.rglob("*.*s")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


async def page(
    request: Request, template: str, *, title: str, command: str = "", status: int = 200, **facts: Any
) -> HTMLResponse:
    """Return a whole page."""
    site = site_of(request)
    sample = facts.pop("sample", None) or await site.sampler.fresh()
    common = {
        "version": static_version(),
        "pages": PAGES,
        "root": root_of(request),
        "here": path_of(request.scope),
        "queue": queue_of(site),
        "guest": guest_of(request),
        "may_act": may_act(request),
        "notice": _notice(request),
        "live": None,
        "heading": None,
    }
    text = (
        environment()
        .get_template(template)
        .render({**common, "title": title, "command": command, "sample": sample, **facts})
    )
    return HTMLResponse(text, status_code=status)


def back_to(request: Request, path: str, done: str, **facts: Any) -> RedirectResponse:
    """Send a browser to a page after a deed, which is said and seen there."""
    site_of(request).sampler.expire()
    return RedirectResponse(f"{root_of(request)}{path}?{urlencode({'done': done, **facts})}", status_code=303)


def root_of(request: Request) -> str:
    """Return the path under which this app is mounted, empty if it is not."""
    return str(request.scope.get("root_path", ""))


def queue_of(site: Site) -> str:
    """Return the queue's address for a person's eyes."""
    return redacted(site.app.queue_url)


@asynccontextmanager
async def answering(site: Site) -> AsyncIterator[None]:
    """Raise QueueUnavailable when the queue takes longer than a person waits for a page."""
    try:
        async with asyncio.timeout(PATIENCE):
            yield
    except TimeoutError as error:
        raise QueueUnavailable(queue_of(site), f"no answer within {PATIENCE:g} s") from error


def _notice(request: Request) -> str:
    words = NOTICES.get(request.query_params.get("done", ""), "")
    count = request.query_params.get("count", "")
    return words.format(count=f"{int(count):,}" if count.isdecimal() and len(count) < 12 else "some")
