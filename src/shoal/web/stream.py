"""Live updates of a page as server-sent events."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

import msgspec
from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from shoal.core.errors import QueueError, QueueUnavailable
from shoal.fleet.status.rates import read_rates
from shoal.web.auth import may_act
from shoal.web.context import WebContext, context_of
from shoal.web.pages.runs import TABS, run_tab_data, tabs_of
from shoal.web.requests import RunId
from shoal.web.sampler import RatePoint, Sample, chart
from shoal.web.views.models import overview_data, overview_title, run_data, run_title
from shoal.web.views.render import queue_of, queue_timeout, render_part, root_of

KEEP_ALIVE_INTERVAL = timedelta(seconds=15)
STREAM_TIMEOUT_SECONDS = 3_600.0  # then the browser reconnects and is authenticated again
MAX_CLIENTS = 200
READ_TIMEOUT = timedelta(seconds=3)  # to read what no sample has: the rates and the dead letters of a run
RETRY_AFTER = "10"
HEADERS = {"X-Accel-Buffering": "no"}

OVERVIEW_PARTS = ("status", "queue_error", "totals", "runs", "limited_hosts", "errors")
RUN_PARTS = {
    "status": "status",
    "queue_error": "queue_error",
    "head": "run_head",
    "steps": "steps",
    "partitions": "partitions",
    "workers": "workers",
    "who_works": "who_works",
    "findings": "findings",
    "hosts": "hosts",
    "errors": "run_errors",
    "tabs": "tabs",
}

Events = dict[str, str]  # text by event name
Viewer = dict[str, Any]  # what the parts need to know about the viewer

router = APIRouter()


@router.get("/live")
async def live_overview(request: Request) -> Response:
    """Stream the overview."""
    return await _stream(request, None)


@router.get("/live/runs/{run_id}")
async def live_run(request: Request, run_id: RunId) -> Response:
    """Stream the page of a run."""
    context, tabs = context_of(request), [name for name, _ in TABS]
    with suppress(QueueUnavailable):  # the stream itself reports it
        async with queue_timeout(context):
            await context.sampler.fresh_sample(run_id)
            tabs = await tabs_of(context, run_id)
    return await _stream(request, run_id, tabs)


async def _stream(request: Request, run_id: str | None, tabs: Sequence[str] = ()) -> Response:
    context = context_of(request)
    if context.sampler.clients >= MAX_CLIENTS:
        message = f"{MAX_CLIENTS} pages are open. Close some."
        return PlainTextResponse(message, status_code=503, headers={"Retry-After": RETRY_AFTER})
    viewer = {"may_act": may_act(request), "root": root_of(request), "shown_tabs": tabs}
    body = _stream_events(context, run_id, viewer)
    return StreamingResponse(body, media_type="text/event-stream", headers=HEADERS)


async def _stream_events(context: WebContext, run_id: str | None, viewer: Viewer) -> AsyncIterator[bytes]:
    """Yield changes until the client disconnects, an hour has passed or the server stops."""
    sampler, before = context.sampler, Events()
    ends_at = time.monotonic() + STREAM_TIMEOUT_SECONDS
    sampler.clients += 1
    try:
        sample = await sampler.fresh_sample()
        yield _event("history", _json(await _history(context, run_id)))
        while not sampler.is_closed and time.monotonic() < ends_at:
            events = await _events(context, sample, run_id, viewer)
            if not before:  # a rate needs two samples, and this may be the first one of the run
                events.pop("point", None)
            yield b"".join(_event(name, text) for name, text in _changed(before, events))
            before = events
            async for _ in _wait_for_sample(context, sample, run_id):
                yield b": keep-alive\n\n"
            sample = sampler.latest
    finally:
        sampler.clients -= 1


async def _wait_for_sample(context: WebContext, sample: Sample, run_id: str | None) -> AsyncIterator[None]:
    """Return when there is a newer sample or the sampler is closed; yield at every keep-alive interval."""
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(KEEP_ALIVE_INTERVAL.total_seconds()):
                if run_id is not None:
                    context.sampler.keep_watched(run_id)
                await context.sampler.next_sample(sample)
                return
        yield


async def _history(context: WebContext, run_id: str | None) -> list[list[float | None]]:
    """Return the times and the rates of the chart so far; those of a run are stored by its worker pools."""
    rates: list[RatePoint] = []
    if run_id is None:
        rates = chart(context.sampler.history())
    else:
        with suppress(QueueError, TimeoutError):
            async with asyncio.timeout(READ_TIMEOUT.total_seconds()):
                rates = (await read_rates(context.app.queue, run_id)).rates()
    return [[at for at, _ in rates], [rate for _, rate in rates]]


async def _events(context: WebContext, sample: Sample, run_id: str | None, viewer: Viewer) -> Events:
    common: dict[str, Any] = {"sample": sample, "queue": queue_of(context), **viewer}
    if run_id is None:
        values = common | overview_data(sample)
        events = {name: render_part(name, **values) for name in OVERVIEW_PARTS}
        rate = sum(one.rate for one in sample.overview.runs)
        return events | {"title": _json(overview_title(sample.overview))} | _point(sample, rate)
    snapshot = sample.snapshot(run_id)
    if snapshot is None:
        return {name: render_part(name, **common) for name in ("status", "queue_error")}
    values = common | run_tab_data("Run", viewer["shown_tabs"], snapshot)
    with suppress(QueueError, TimeoutError):  # the next sample reports it
        async with asyncio.timeout(READ_TIMEOUT.total_seconds()):
            values |= await run_data(context, sample, snapshot)
        events = {name: render_part(template, **values) for name, template in RUN_PARTS.items()}
        events["title"] = _json(run_title(snapshot))
        # The chart of a run that is over ends where it ended.
        return events if snapshot.is_over else events | _point(sample, snapshot.rate)
    return {name: render_part(name, **common) for name in ("status", "queue_error")}


def _point(sample: Sample, rate: float) -> Events:
    return {"point": _json((sample.at.timestamp(), round(rate, 2)))}


def _changed(before: Mapping[str, str], events: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, text) for name, text in events.items() if before.get(name) != text)


def _event(name: str, text: str) -> bytes:
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n{lines}\n".encode()


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()
