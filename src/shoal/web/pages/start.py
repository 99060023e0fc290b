"""The scrapers, the form that starts a run of one, and the form that adds URLs to a run."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Self

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput, InvalidSetting, InvalidUrl, ShoalError, UnknownScraper
from shoal.core.model import Run
from shoal.core.text import shorten
from shoal.core.urls import canonical
from shoal.core.values import counted
from shoal.fleet.build_job import project_job
from shoal.fleet.command_hints import joined, queue_option
from shoal.queue.requests import new_run_id
from shoal.web.actions import WEB_SETTINGS, OperatorActions, check_settings, check_workers, seeds_of_job
from shoal.web.api.requests import Operator, RunId, Text
from shoal.web.context import WebContext, context_of
from shoal.web.pages.runs import command_line, load_run, path_of_run, run_tab_data
from shoal.web.views.form import Form, form_field, read_form, read_settings
from shoal.web.views.render import queue_timeout, redirect_after, render_page

log = logging.getLogger(__name__)
router = APIRouter()
START_TIMEOUT = timedelta(seconds=8)  # to wait for a start; then it continues in the background
SHOWN_URLS = 3  # in a command; more are shown as a file
MAX_SHOWN = 5  # URLs, and lines that are none, on the page that asks for confirmation
MAX_FORM = 1 << 20  # bytes
FIELDS = ("scraper", "urls", "sitemap", "feed", "feed_hosts", "args", "settings", "workers")
MAX_REASON = 500  # characters of an error in the audit log


@dataclass(frozen=True, slots=True, kw_only=True)
class StartForm:
    """The fields of the form, as typed."""

    scraper: str = ""
    urls: str = ""
    sitemap: str = ""
    feed: str = ""
    feed_hosts: str = ""
    args: str = ""
    settings: str = ""
    workers: str = "1"

    @classmethod
    def read(cls, form: Form) -> Self:
        """Read the fields of a submitted form."""
        return cls(**{name: form_field(form, name).strip() for name in FIELDS})

    def fields(self) -> list[tuple[str, str]]:
        """Return the hidden fields that submit it again."""
        return [(name, getattr(self, name)) for name in FIELDS]

    @property
    def lines(self) -> list[str]:
        """The URLs, one of each line."""
        return _lines(self.urls)

    @property
    def sitemaps(self) -> list[str]:
        """The addresses of sitemaps or of sites that have them."""
        return self.sitemap.split()

    @property
    def feeds(self) -> list[str]:
        """The addresses of feeds."""
        return self.feed.split()

    @property
    def other_hosts(self) -> list[str]:
        """Patterns of other hosts whose pages the feeds may list."""
        return self.feed_hosts.replace(",", " ").split()

    @property
    def count(self) -> int:
        """The number of workers; raises InvalidInput."""
        if not self.workers.isdecimal() or len(self.workers) > 4:
            raise InvalidInput(f"Workers must be a whole number, got {self.workers[:20]!r}")
        return int(self.workers)

    def changes(self) -> dict[str, Any]:
        """Return the settings; raises InvalidSetting."""
        return read_settings(self.settings)

    def arguments(self) -> dict[str, str]:
        """Return the arguments of the run; raises InvalidSetting."""
        found = dict[str, str]()
        for line in _lines(self.args):
            name, equals, value = line.partition("=")
            if not equals or not name.strip():
                raise InvalidSetting("arguments", f"take NAME=VALUE such as tag=life, not {shorten(line)!r}")
            found[name.strip()] = value.strip()
        return found

    def command(self, context: WebContext, *, is_seeded: bool) -> str:
        """Return the command that does the same; without sources, a seeded scraper needs none."""
        name, urls = self.scraper or "NAME", self.lines
        if len(urls) > SHOWN_URLS:
            words = ["--urls-file", "urls.txt"]
        else:
            words = [word for url in urls for word in ("--url", url)]
        words += [word for address in self.sitemaps for word in ("--sitemap", address)]
        words += [word for address in self.feeds for word in ("--feed", address)]
        words += ["--feed-hosts", ",".join(self.other_hosts)] if self.other_hosts else []
        words = words or ([] if is_seeded else ["--url", "https://…"])
        words += [word for line in _lines(self.args) for word in ("-a", line)]
        words += [word for line in _lines(self.settings) for word in ("--set", line)]
        verb = ["shoal", "run"] if self.workers not in ("", "0") else ["shoal", "enqueue"]
        words += ["--workers", self.workers] if verb[1] == "run" else []
        return joined([*verb, name, *words, *queue_option(context.app.queue_url)])


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


@router.get("/start")
async def form(request: Request, actions: Operator, scraper: Text = "") -> Response:
    """Show the form that starts a run."""
    return await _form(request, StartForm(scraper=scraper))


@router.post("/start")
async def review(request: Request, actions: Operator) -> Response:
    """Check the form and ask for confirmation; nothing is changed yet."""
    context, submitted = context_of(request), await read_form(request, MAX_FORM)
    given = StartForm.read(submitted)
    if form_field(submitted, "edit"):
        return await _form(request, given)
    try:
        facts = await _check(context, given)
    except ShoalError as error:
        return await _form(request, given, str(error))
    return await render_page(
        request,
        "start_review.html",
        title=f"Start {given.scraper}",
        command=given.command(context, is_seeded=True),  # sources or seeds: otherwise it is refused
        facts=facts,
        given=given,
    )


@router.post("/start/run")
async def start(request: Request, actions: Operator) -> Response:
    """Start the run. A source that takes long to read, such as a large sitemap, is read in the background."""
    context, given = context_of(request), StartForm.read(await read_form(request, MAX_FORM))
    run_id = new_run_id(datetime.now(UTC))
    starting = asyncio.create_task(_start(actions, given, run_id))
    context.starts[run_id] = starting
    starting.add_done_callback(partial(_end_start, context, run_id))
    await asyncio.wait([starting], timeout=START_TIMEOUT.total_seconds())
    if not starting.done():
        return redirect_after(request, path_of_run(run_id), "starting")
    try:
        started = starting.result()
    except ShoalError as error:
        return await _form(request, given, str(error))
    return redirect_after(request, path_of_run(run_id), "started", count=started["enqueued"])


async def _start(actions: OperatorActions, given: StartForm, run_id: str) -> dict[str, Any]:
    try:
        return await actions.start(
            given.scraper,
            urls=given.lines,
            sitemaps=given.sitemaps,
            feeds=given.feeds,
            feed_hosts=given.other_hosts,
            settings=given.changes(),
            args=given.arguments(),
            run_id=run_id,
            workers=given.count,
            needs_tasks=True,
        )
    except ShoalError as error:
        reason = actions.context.redact(str(error))[:MAX_REASON]
        await actions.record("start failed", given.scraper, reason=reason)
        raise


def _end_start(context: WebContext, run_id: str, starting: asyncio.Task[Any]) -> None:
    context.starts.pop(run_id, None)
    if not starting.cancelled() and (error := starting.exception()):
        log.warning("Starting run %s failed: %s", run_id, context.redact(str(error)))


async def _check(context: WebContext, given: StartForm) -> list[tuple[str, str]]:
    """Return what the run will be, as names and texts; raises what the start would raise."""
    app, changes = context.app, given.changes()
    if given.scraper not in app.project.scrapers:
        raise UnknownScraper(given.scraper, list(app.project.scrapers))
    check_settings(changes)
    check_workers(context, given.count)
    args = given.arguments()
    job = await asyncio.to_thread(project_job, app.project, app.queue_url, given.scraper, changes, args)
    job.scraper.declared_args.read(job.args)  # one that is missing is refused here
    lines, sitemaps, feeds = given.lines, given.sitemaps, given.feeds
    if given.other_hosts and not feeds:
        raise InvalidInput("Hosts of a feed need a feed: fill in its address")
    seeds = None if lines or sitemaps or feeds else seeds_of_job(app.project, job)
    good, wrong = _sort_lines(lines)
    if wrong and not good and not sitemaps and not feeds:
        raise InvalidInput(f"No line is a URL. {wrong[0]}")
    facts = {
        "Scraper": given.scraper,
        "URLs": good and f"{len(good):,}: {_listed(good)}",
        "Skipped": wrong and f"{counted(len(wrong), 'line')}: {_listed(wrong)}",
        "Sitemap": ", ".join(sitemaps),
        "Feed": ", ".join(feeds),
        "Hosts of the feed": ", ".join(given.other_hosts),
        "Seeds": seeds and f"those of {seeds.declared_in}",
        "Arguments": ", ".join(_lines(given.args)),
        "Settings": ", ".join(given.settings.splitlines()),
        "Workers": _workers_fact(given.count),
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


async def _form(request: Request, given: StartForm, error: str = "") -> Response:
    context = context_of(request)
    rows = await asyncio.to_thread(context.scraper_rows.all)
    settings, running = context.settings, context.app.local_workers.count()
    seeded = [row.name for row in rows if row.seeded]
    return await render_page(
        request,
        "start.html",
        title="Start a run",
        command=given.command(context, is_seeded=given.scraper in seeded),
        status=422 if error else 200,
        error=context.redact(error),
        given=given,
        scrapers=[row.name for row in rows if not row.says],
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
    urls = form_field(await read_form(request, MAX_FORM), "urls")
    lines = [line.strip() for line in urls.splitlines() if line.strip()]
    try:
        if not lines:
            raise InvalidInput("Type at least one URL.")
        added = await actions.enqueue(run_id, urls=lines)
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
    sample, snapshot = await load_run(request, run_id)
    scraper, redact = snapshot.run.scraper, context_of(request).redact
    return await render_page(
        request,
        "enqueue.html",
        title=f"Add URLs · {scraper}",
        heading=scraper,
        command=command_line("enqueue", scraper, run=run_id, url="https://…"),
        sample=sample,
        status=422 if error else 200,
        urls=urls,
        error=redact(error),
        refused=[redact(line) for line in refused or ()],
        **run_tab_data(run_id, "Run", snapshot),
    )
