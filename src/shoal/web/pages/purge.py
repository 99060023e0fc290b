"""Deleting old runs: the form on the list of runs leads to a confirmation."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Query
from starlette.requests import Request
from starlette.responses import Response

from shoal.core.errors import InvalidInput
from shoal.core.model import ZERO
from shoal.fleet.run.retention import RetentionRule
from shoal.web import actions
from shoal.web.api.params import Label, Operator
from shoal.web.context import context_of
from shoal.web.pages.runs import command_line
from shoal.web.views.form import form_field, read_form
from shoal.web.views.render import queue_timeout, redirect_after, render_page, root_of

router = APIRouter()
Text = Annotated[Label, Query()]


def read_rule(days: str, keep: str, scraper: str) -> RetentionRule:
    """Read which runs to delete; raises InvalidInput."""
    for name, value in (("days", days), ("keep", keep)):
        if value and not (value.isdecimal() and len(value) < 6):
            raise InvalidInput(f"{name} must be a whole number, got {value[:20]!r}.")
    older = timedelta(days=int(days)) if days else ZERO
    return RetentionRule(older=older, keep=int(keep or 0), scraper=scraper.strip() or None)


@router.get("/purge")
async def confirm_purge(
    request: Request, principal: Operator, days: Text = "", keep: Text = "", scraper: Text = ""
) -> Response:
    """Ask for confirmation before old runs are deleted."""
    rule, context = read_rule(days, keep, scraper), context_of(request)
    async with queue_timeout(context):
        report = await actions.purge_old(context, principal, rule, dry_run=True)
    runs = f"{len(report.runs):,} run{'' if len(report.runs) == 1 else 's'}"
    lost = ", ".join(f"{report.total(name):,} {name}" for name in ("tasks", "items"))
    kept = f"{report.unfinished + report.in_use:,} others are as old, but not finished or in use: they stay."
    options = {"older": f"{days}d" if days else "", "keep": keep, "scraper": scraper}
    return await render_page(
        request,
        "confirm.html",
        title="Delete old runs",
        command=command_line("shoal", "purge", **{name: value for name, value in options.items() if value}),
        question=f"Delete {runs}?" if report.runs else "No run is that old.",
        consequence=f"With {lost}, {report.total('dead'):,} dead letters. {kept}",
        can_do=bool(report.runs),
        is_destructive=True,
        verb=f"Delete {runs}",
        action=f"{root_of(request)}/purge",
        fields=[("days", days), ("keep", keep), ("scraper", scraper)],
        back=f"{root_of(request)}/runs",
    )


@router.post("/purge")
async def purge(request: Request, principal: Operator) -> Response:
    """Delete old runs."""
    form = await read_form(request)
    rule = read_rule(*(form_field(form, name) for name in ("days", "keep", "scraper")))
    report = await actions.purge_old(context_of(request), principal, rule)
    return redirect_after(request, "/runs", "purged", count=len(report.runs))
