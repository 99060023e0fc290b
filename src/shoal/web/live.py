"""What changes on a page, sent to those who watch it as it changes."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import suppress
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from shoal.core.errors import QueueUnavailable
from shoal.web.api.params import RunId
from shoal.web.facts import overview_facts, overview_title, run_facts, run_title
from shoal.web.frame import answering, part, queue_of, root_of
from shoal.web.guard import may_act
from shoal.web.history import columns
from shoal.web.sampler import FLEET, Sample
from shoal.web.site import Site, site_of

KEEP_ALIVE = 15.0  # seconds
LONGEST = 3_600.0  # seconds; then the browser comes again, and shows that it still may
MOST_CLIENTS = 200
RETRY_AFTER = "10"
HEADERS = {"X-Accel-Buffering": "no"}

OVERVIEW_PARTS = ("status", "trouble", "totals", "runs", "treated", "errors")
RUN_PARTS = {
    "status": "status",
    "trouble": "trouble",
    "head": "run_head",
    "steps": "steps",
    "partitions": "partitions",
    "workers": "workers",
    "errors": "errors",
}

Events = dict[str, str]  # by name: the text of each
Viewer = dict[str, Any]  # what parts must know of who looks

router = APIRouter()


@router.get("/live")
async def live_overview(request: Request) -> Response:
    """Stream the overview."""
    return await _stream(request, None)


@router.get("/live/runs/{run_id}")
async def live_run(request: Request, run_id: RunId) -> Response:
    """Stream the page of a run."""
    site = site_of(request)
    with suppress(QueueUnavailable):  # which the stream itself tells
        async with answering(site):
            await site.sampler.fresh(run_id)
    return await _stream(request, run_id)


async def _stream(request: Request, run_id: str | None) -> Response:
    site = site_of(request)
    if site.sampler.clients >= MOST_CLIENTS:
        words = f"{MOST_CLIENTS} pages are open already. Close some."
        return PlainTextResponse(words, status_code=503, headers={"Retry-After": RETRY_AFTER})
    told = _told(site, run_id, {"may_act": may_act(request), "root": root_of(request)})
    return StreamingResponse(told, media_type="text/event-stream", headers=HEADERS)


async def _told(site: Site, run_id: str | None, viewer: Viewer) -> AsyncIterator[bytes]:
    """Yield what is new, again and again, until the client goes, an hour is over or the server stops."""
    sampler, before = site.sampler, Events()
    ends_at = time.monotonic() + LONGEST
    sampler.clients += 1
    try:
        sample = await sampler.fresh()
        yield _event("history", _json(columns(sampler.history(run_id or FLEET))))
        while not sampler.is_closed and time.monotonic() < ends_at:
            events = _events(site, sample, run_id, viewer)
            yield b"".join(_event(name, text) for name, text in _changed(before, events))
            before = events
            async for _ in _until_next(site, sample, run_id):
                yield b": still here\n\n"
            sample = sampler.latest
    finally:
        sampler.clients -= 1


async def _until_next(site: Site, sample: Sample, run_id: str | None) -> AsyncIterator[None]:
    """Come to an end when there is a newer sample, or no more; yield whenever that takes long."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE):
                if run_id is not None:
                    site.sampler.keep(run_id)
                await site.sampler.after(sample)
                return
        yield


def _events(site: Site, sample: Sample, run_id: str | None, viewer: Viewer) -> Events:
    common: dict[str, Any] = {"sample": sample, "queue": queue_of(site), **viewer}
    if run_id is None:
        facts = common | overview_facts(site.sampler, sample)
        events = {name: part(name, **facts) for name in OVERVIEW_PARTS}
        return events | {"title": _json(overview_title(sample.overview))} | _point(site, FLEET)
    one = sample.snapshot(run_id)
    if one is None:
        return {name: part(name, **common) for name in ("status", "trouble")}
    facts = common | run_facts(sample, one)
    events = {name: part(template, **facts) for name, template in RUN_PARTS.items()}
    return events | {"title": _json(run_title(one))} | _point(site, run_id)


def _point(site: Site, run_id: str) -> Events:
    points = site.sampler.history(run_id)
    return {"point": _json(points[-1][:5])} if points else {}


def _changed(before: Mapping[str, str], events: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in events.items() if before.get(name) != text)


def _event(name: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
