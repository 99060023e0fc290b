"""The scrapers, the form that starts a run of one, and the form that adds URLs to a run."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput, InvalidUrl, ShoalError
from shoal.core.model import Run
from shoal.core.text import shorten
from shoal.core.urls import canonical
from shoal.core.values import counted, read_pair, read_whole
from shoal.fleet.command_hints import joined, queue_option
from shoal.queue.requests import new_run_id
from shoal.web.actions import WEB_SETTINGS, Operator, OperatorActions
from shoal.web.context import WebContext, context_of
from shoal.web.pages.runs import command_line, load_run, path_of_run, render_tab
from shoal.web.requests import MAX_STARTED, RunId, ScraperName, SeedsBody, StartRunBody, Text
from shoal.web.views.form import Form, body_of, form_field, read_form, read_settings
from shoal.web.views.models import trend_data
from shoal.web.views.render import queue_timeout, redirect_after, render_page

log = logging.getLogger(__name__)
router = APIRouter()
START_TIMEOUT = timedelta(seconds=8)  # to wait for a start; then it continues in the background
SHOWN_URLS = 3  # in a command; more are shown as a file
MAX_SHOWN = 5  # URLs, and lines that are none, on the page that asks for confirmation
FIELDS = ("scraper", "urls", "sitemap", "feed", "feed_hosts", "args", "settings", "workers")
MAX_REASON = 500  # characters of an error in the audit log

Typed = Mapping[str, str]  # the fields of the form, as typed


def typed_in(form: Form) -> Typed:
    """Return the fields of a submitted form."""
    return {name: form_field(form, name).strip() for name in FIELDS}


def read_body(typed: Typed, run_id: str | None = None) -> StartRunBody:
    """Return what the form starts; raises InvalidInput."""
    return body_of(
        StartRunBody,
        scraper=typed["scraper"],
        urls=_lines(typed["urls"]),
        sitemaps=typed["sitemap"].split(),
        feeds=typed["feed"].split(),
        feed_hosts=typed["feed_hosts"].replace(",", " ").split(),
        args=dict(read_pair("arguments", line, "tag=life") for line in _lines(typed["args"])),
        settings=read_settings(typed["settings"]),
        workers=read_whole("workers", typed["workers"], least=0, most=MAX_STARTED),
        run_id=run_id,
    )


def command_of(typed: Typed, queue_url: str, *, is_seeded: bool) -> str:
    """Return the command that does the same; without sources, a seeded scraper needs none."""
    urls, hosts = _lines(typed["urls"]), typed["feed_hosts"].replace(",", " ").split()
    words = ["--urls-file", "urls.txt"] if len(urls) > SHOWN_URLS else _options("--url", urls)
    words += _options("--sitemap", typed["sitemap"].split()) + _options("--feed", typed["feed"].split())
    words += ["--feed-hosts", ",".join(hosts)] if hosts else []
    words = words or ([] if is_seeded else ["--url", "https://…"])
    words += _options("-a", _lines(typed["args"])) + _options("--set", _lines(typed["settings"]))
    has_workers = typed["workers"] not in ("", "0")
    words += ["--workers", typed["workers"]] if has_workers else []
    verb, name = "run" if has_workers else "enqueue", typed["scraper"] or "NAME"
    return joined(["shoal", verb, name, *words, *queue_option(queue_url)])


def _options(name: str, values: Iterable[str]) -> list[str]:
    return [word for value in values for word in (name, value)]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


@router.get("/scrapers")
async def scrapers(request: Request) -> Response:
    """List the scrapers of the project with their newest runs; one that cannot be loaded shows the error."""
    context = context_of(request)
    rows = await asyncio.to_thread(context.scraper_rows.all)
    async with queue_timeout(context):
        newest = _newest(await context.app.queue.runs())
    return await render_page(
        request,
        "scrapers.html",
        title="Scrapers",
        command="shoal scrapers",
        scrapers=[replace(row, says=row.says and context.redact(row.says)) for row in rows],
        newest=newest,
        file=context.app.project.file,
    )


@router.get("/scrapers/{scraper}")
async def scraper_page(request: Request, scraper: ScraperName) -> Response:
    """Show the trend over the last runs of a scraper."""
    context = context_of(request)
    async with queue_timeout(context):
        data = await trend_data(context, scraper)
    return await render_page(request, "scraper.html", title=scraper, command=command_line("runs"), **data)


@router.get("/start")
async def form(request: Request, actions: Operator, scraper: Text = "") -> Response:
    """Show the form that starts a run."""
    return await _form(request, {**dict.fromkeys(FIELDS, ""), "scraper": scraper, "workers": "1"})


@router.post("/start")
async def review(request: Request, actions: Operator) -> Response:
    """Check the form and ask for confirmation; nothing is changed yet."""
    submitted = await read_form(request)
    typed = typed_in(submitted)
    if form_field(submitted, "edit"):
        return await _form(request, typed)
    try:
        facts = await _check(actions, typed)
    except ShoalError as error:
        return await _form(request, typed, str(error))
    queue_url = context_of(request).app.queue_url
    return await render_page(
        request,
        "start_review.html",
        title=f"Start {typed['scraper']}",
        command=command_of(typed, queue_url, is_seeded=True),  # sources or seeds: otherwise it is refused
        facts=facts,
        fields=typed,
    )


@router.post("/start/run")
async def start(request: Request, actions: Operator) -> Response:
    """Start the run. A source that takes long to read, such as a large sitemap, is read in the background."""
    context, typed = context_of(request), typed_in(await read_form(request))
    run_id = new_run_id(datetime.now(UTC))
    starting = asyncio.create_task(_start(actions, typed, run_id))
    context.starts[run_id] = starting
    starting.add_done_callback(partial(_end_start, context, run_id))
    await asyncio.wait([starting], timeout=START_TIMEOUT.total_seconds())
    if not starting.done():
        return redirect_after(request, path_of_run(run_id), "starting")
    try:
        started = starting.result()
    except ShoalError as error:
        return await _form(request, typed, str(error))
    return redirect_after(request, path_of_run(run_id), "started", count=started["enqueued"])


async def _start(actions: OperatorActions, typed: Typed, run_id: str) -> dict[str, Any]:
    try:
        return await actions.start(read_body(typed, run_id), needs_tasks=True)
    except ShoalError as error:
        reason = actions.context.redact(str(error))[:MAX_REASON]
        await actions.record("start failed", typed["scraper"], reason=reason)
        raise


def _end_start(context: WebContext, run_id: str, starting: asyncio.Task[Any]) -> None:
    context.starts.pop(run_id, None)
    if not starting.cancelled() and (error := starting.exception()):
        log.warning("Starting run %s failed: %s", run_id, context.redact(str(error)))


async def _check(actions: OperatorActions, typed: Typed) -> list[tuple[str, str]]:
    """Return what the run will be, as names and texts; raises what the start would raise."""
    body = read_body(typed)
    job, seeds = await actions.prepare(body)
    job.scraper.declared_args.read(job.args)  # one that is missing is refused here
    good, wrong = _sort_lines(body.urls)
    if wrong and not good and not body.sitemaps and not body.feeds:
        raise InvalidInput(f"No line is a URL. {wrong[0]}")
    facts = {
        "Scraper": body.scraper,
        "URLs": good and f"{len(good):,}: {_listed(good)}",
        "Skipped": wrong and f"{counted(len(wrong), 'line')}: {_listed(wrong)}",
        "Sitemap": ", ".join(body.sitemaps),
        "Feed": ", ".join(body.feeds),
        "Hosts of the feed": ", ".join(body.feed_hosts),
        "Seeds": seeds.declared_in and f"those of {seeds.declared_in}",
        "Arguments": ", ".join(_lines(typed["args"])),
        "Settings": ", ".join(_lines(typed["settings"])),
        "Workers": _workers_fact(body.workers),
        "Items": "Stored in the queue. The page of the run lists and exports them.",
    }
    return [(name, str(text)) for name, text in facts.items() if text]


def _workers_fact(count: int) -> str:
    if not count:
        return "None here. The page of the run shows the command that starts some."
    return f"{counted(count, 'worker')} on this machine, until the tasks are done or the server stops."


def _sort_lines(lines: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the lines that are URLs, and the errors of the others."""
    good, wrong = [], []
    for line in lines:
        try:
            canonical(line)
            good.append(line)
        except InvalidUrl as error:
            wrong.append(str(error))
    return good, wrong


def _listed(lines: Sequence[str]) -> str:
    more = len(lines) - MAX_SHOWN
    return ", ".join(map(shorten, lines[:MAX_SHOWN])) + (f" and {more:,} more" if more > 0 else "")


def _newest(runs: Sequence[Run]) -> dict[str, Run]:
    """Return the newest run of each scraper."""
    return {run.scraper: run for run in reversed(runs)}


async def _form(request: Request, typed: Typed, error: str = "") -> Response:
    context = context_of(request)
    rows = await asyncio.to_thread(context.scraper_rows.all)
    settings, running = context.settings, context.app.local_workers.count()
    seeded = [row.name for row in rows if row.seeded]
    names = [row.name for row in rows if not row.says]
    if not typed["scraper"] and len(names) == 1:
        typed = {**typed, "scraper": names[0]}
    return await render_page(
        request,
        "start.html",
        title="Start a run",
        command=command_of(typed, context.app.queue_url, is_seeded=typed["scraper"] in seeded),
        status=422 if error else 200,
        error=context.redact(error),
        given=typed,
        scrapers=names,
        seeded=seeded,
        arguments={row.name: row.args for row in rows if row.args},
        allowed=WEB_SETTINGS,
        max_workers=max(settings.max_workers - running, 0),
    )


@router.get("/runs/{run_id}/enqueue")
async def enqueue_form(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Show the form that adds URLs to a run."""
    return await _enqueue_form(request, run_id)


@router.post("/runs/{run_id}/enqueue")
async def enqueue(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Add URLs to a run; lines that cannot be queued are shown again with the reason."""
    urls = form_field(await read_form(request), "urls")
    lines = _lines(urls)
    try:
        if not lines:
            raise InvalidInput("Type at least one URL.")
        added = await actions.enqueue(run_id, body_of(SeedsBody, urls=lines))
    except ShoalError as error:
        return await _enqueue_form(request, run_id, urls=urls, error=str(error))
    if not added["refused"]:
        counts = {"count": added["enqueued"], "duplicate": added["duplicate"], "known": added["known"]}
        return redirect_after(request, path_of_run(run_id), "added", **counts)
    refused = [f"{shorten(one['text'])}: {one['reason']}" for one in added["refused"]]
    said = (
        f"{counted(added['enqueued'], 'task')} added, {added['duplicate']:,} already in the run, "
        f"{added['known']:,} queued by earlier runs. Not added: {counted(added['invalid'], 'line')}."
    )
    left = "\n".join(one["text"] for one in added["refused"])
    return await _enqueue_form(request, run_id, urls=left, error=said, refused=refused)


async def _enqueue_form(
    request: Request, run_id: str, *, urls: str = "", error: str = "", refused: list[str] | None = None
) -> Response:
    seen = await load_run(request, run_id)
    redact = context_of(request).redact
    return await render_tab(
        request,
        "enqueue.html",
        "Run",
        seen,
        subject="Add URLs",
        command=command_line("enqueue", seen[1].run.scraper, run=run_id, url="https://…"),
        status=422 if error else 200,
        urls=urls,
        error=redact(error),
        refused=[redact(line) for line in refused or ()],
    )
