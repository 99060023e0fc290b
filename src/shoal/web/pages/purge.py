"""Deleting runs, and what runs with `dedup` have queued: each after a confirmation."""

from datetime import timedelta
from urllib.parse import quote

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.values import counted, read_whole
from shoal.fleet.run import retention
from shoal.fleet.run.retention import RetentionRule
from shoal.web.actions import Operator, check_scraper
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line, path_of_run
from shoal.web.requests import RunId, ScraperName, Text
from shoal.web.views.form import form_field, read_form
from shoal.web.views.render import queue_timeout, redirect_after, render_confirm

router = APIRouter()


def read_rule(days: str, keep: str, scraper: str) -> RetentionRule:
    """Read which runs to delete; raises InvalidInput."""
    older = timedelta(days=read_whole("days", days or 0, least=0, most=99_999))
    kept = read_whole("keep", keep or 0, least=0)
    return RetentionRule(older=older, keep=kept, scraper=scraper.strip() or None)


@router.get("/purge")
async def confirm_purge(
    request: Request, actions: Operator, days: Text = "", keep: Text = "", scraper: Text = ""
) -> Response:
    """Ask for confirmation before old runs are deleted."""
    rule, context = read_rule(days, keep, scraper), context_of(request)
    async with queue_timeout(context):
        report = await actions.purge_old(rule, dry_run=True)
    runs = f"{len(report.runs):,} run{'' if len(report.runs) == 1 else 's'}"
    lost = ", ".join((f"{report.tasks:,} tasks", f"{report.items:,} items"))
    kept = f"{report.unfinished + report.in_use:,} others are as old, but not finished or in use: they stay."
    options = {"older": f"{days}d" if days else "", "keep": keep, "scraper": scraper}
    return await render_confirm(
        request,
        title="Delete old runs",
        command=command_line("purge", **{name: value for name, value in options.items() if value}),
        question=f"Delete {runs}?" if report.runs else "No run is that old.",
        consequence=f"With {lost}, {report.dead:,} dead letters. {kept}",
        can_do=bool(report.runs),
        verb=f"Delete {runs}",
        action="/purge",
        fields=[("days", days), ("keep", keep), ("scraper", scraper)],
        back="/runs",
    )


@router.post("/purge")
async def purge(request: Request, actions: Operator) -> Response:
    """Delete old runs."""
    form = await read_form(request)
    rule = read_rule(*(form_field(form, name) for name in ("days", "keep", "scraper")))
    report = await actions.purge_old(rule)
    return redirect_after(request, "/runs", "purged", count=len(report.runs))


@router.get("/runs/{run_id}/purge")
async def confirm_purge_of_run(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Ask for confirmation before a run is deleted; an error if workers run on it."""
    context = context_of(request)
    async with queue_timeout(context):
        found = await retention.purge_run(context.app.queue, run_id, dry_run=True)
        stats = await context.app.queue.stats(run_id)
    left = f" Not done yet: {counted(stats.remaining, 'task')}." if stats.remaining else ""
    return await render_confirm(
        request,
        title=f"Delete {run_id}",
        command=command_line("purge", run_id),
        question=f"Delete this run of {found.scraper}?",
        consequence=f"With {counted(stats.tasks, 'task')}, {counted(stats.items, 'item')} and "
        f"{counted(stats.dead, 'dead letter')}. This cannot be undone.{left}",
        verb="Delete run",
        action=f"{path_of_run(run_id)}/purge",
        back=path_of_run(run_id),
    )


@router.post("/runs/{run_id}/purge")
async def purge_run(request: Request, run_id: RunId, actions: Operator) -> Response:
    """Delete a run."""
    await actions.purge(run_id)
    return redirect_after(request, "/runs", "purged", count=1)


@router.get("/scrapers/{scraper}/forget")
async def confirm_forget(request: Request, scraper: ScraperName, actions: Operator) -> Response:
    """Ask for confirmation before the history of a scraper's runs with `dedup` is forgotten."""
    check_scraper(context_of(request), scraper)
    return await render_confirm(
        request,
        title=f"Forget {scraper}",
        command=command_line("forget", scraper),
        question=f"Forget what runs of {scraper} with dedup have queued?",
        consequence="Its next run queues all of it again. Runs and items are kept.",
        verb="Forget",
        action=f"/scrapers/{quote(scraper, safe='')}/forget",
        back="/scrapers",
    )


@router.post("/scrapers/{scraper}/forget")
async def forget(request: Request, scraper: ScraperName, actions: Operator) -> Response:
    """Forget what runs of a scraper with `dedup` have queued."""
    count = await actions.forget(scraper)
    return redirect_after(request, "/scrapers", "forgotten", count=count)
