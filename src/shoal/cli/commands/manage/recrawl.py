"""`shoal recrawl plan`: what the next run of a scraper with `revisit` would fetch, and why."""

from typing import Annotated

import typer

from shoal.cli.console import counted, duration, put_json, say
from shoal.cli.open_queue import with_existing_queue
from shoal.cli.options import common
from shoal.cli.tables import put_rows
from shoal.fleet.sources.revisits import SHOWN, forecast
from shoal.fleet.status.find import find_run_or_newest_of
from shoal.fleet.status.rows.tasks import PlannedPageRow, RecrawlPlanReport
from shoal.queue.contract import Queue

app = typer.Typer(no_args_is_help=True, help="Show which pages the next run would fetch again.")


@app.callback()
def recrawl() -> None:
    """Show which pages the next run would fetch again."""


@app.command()
def plan(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[SCRAPER|RUN]",
            help="A scraper, whose newest run is taken, or a run; the newest run by default.",
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=0, help="Maximum number of rows.", metavar="N")] = SHOWN,
    queue: common.Queue = common.DEFAULT_QUEUE,
    wide: common.Wide = False,
    as_json: common.Json = False,
) -> None:
    """Show which pages the next run would fetch now, and why.

    Example: shoal recrawl plan books
    """

    async def read(opened: Queue) -> RecrawlPlanReport:
        return await forecast(opened, await find_run_or_newest_of(opened, name), limit=limit)

    report = with_existing_queue(queue, read)
    if as_json:
        put_json(report)
        return
    put_rows(report.pages, PlannedPageRow.columns, as_json=False, nothing="No page is due.", wide=wide)
    say(_total(report))
    say("New pages are fetched besides, and those for which a sitemap or feed has a new date.")


def _total(report: RecrawlPlanReport) -> str:
    bounds = f"{duration(report.shortest_seconds)} to {duration(report.longest_seconds)}"
    count = report.reasons
    text = (
        f"The next run of {report.scraper} would fetch {report.fetch:,} of {counted(report.known, 'page')} "
        f"(revisit {bounds}): {count['due']:,} due, {count['date']:,} with a new date, "
        f"{count['new']:,} without stored results. {count['not_due']:,} are not due."
    )
    left = f" {count['over_budget']:,} are due and left by revisit_pages={report.revisit_pages}."
    return text + (left if count["over_budget"] else "")
