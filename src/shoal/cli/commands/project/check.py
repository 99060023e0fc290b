"""`shoal check`: check everything a run needs."""

from collections.abc import Iterator
from typing import Annotated

import typer
import uvloop

from shoal.cli.commands.project.show import REFUSED, plugin_rows
from shoal.cli.configuration import current_project
from shoal.cli.console import say
from shoal.cli.exits import Exit
from shoal.cli.options import common
from shoal.cli.options.workers import read_change
from shoal.cli.tables import put_rows
from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidInput, InvalidSetting, ShoalError
from shoal.fleet.job import Job
from shoal.fleet.notify.channels import read_channels
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load
from shoal.fleet.schedule.definition import Schedule
from shoal.fleet.sources.declared import declared_seeds
from shoal.fleet.status.doctor import CheckResult, CheckStatus, examine
from shoal.fleet.status.rows.row import TableColumns
from shoal.fleet.table_check import check_tables

CHECK_COLUMNS = TableColumns(("what", "health", "says"))


def check(
    scraper: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE[:NAME]|NAME]", help="Scraper to check; without it, all scrapers in shoal.toml."
        ),
    ] = None,
    proxies: common.Proxies = None,
    tokens: common.Tokens = None,
    partition_table: common.PartitionTable = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Check what a run needs: the scraper, the queue and what it can lose in a crash, this machine.

    Proxies, tokens and the partition table are the scraper's own unless you pass others.
    """
    project = current_project()
    found = load_jobs(scraper, proxies, tokens, queue)
    jobs = [one for one in found if isinstance(one, Job)]
    subjects = [one.scraper if isinstance(one, Job) else one for one in found]

    async def looked() -> list[CheckResult]:
        results = [result async for result in examine(queue, *subjects, routes=project.routes)]
        results += [result async for result in check_tables(project, jobs, partition_table)]
        return results + list(_check_schedules(project))

    findings = uvloop.run(looked())
    for one in plugin_rows():
        if one["state"] == REFUSED:
            says = f"the {one['kind']} {one['name']!r} of {one['package']} cannot be used: {one['says']}"
            findings.append(CheckResult("plugins", CheckStatus.POOR, says))
    put_rows(findings, CHECK_COLUMNS, as_json=as_json, nothing="")
    bad = [found for found in findings if found.health is CheckStatus.BAD]
    if bad and not as_json:
        say(f"Fix these first: {', '.join(found.what for found in bad)}.")
    raise typer.Exit(Exit.FAILED if bad else Exit.OK)


def _check_schedules(project: Project) -> Iterator[CheckResult]:
    """Check the schedules of the project file, and whether messages about runs can be sent from here."""
    try:
        where = project.source_of("schedules")
        for name, table in project.schedules.items():
            words = Schedule.read(f"{where}.{name}", table).words
            yield CheckResult(f"schedule {name}", CheckStatus.GOOD, words)
        for channel in read_channels(project):
            health = CheckStatus.POOR if channel.missing else CheckStatus.GOOD
            says = (
                channel.missing
                or f"{channel.settings.kind}; to try it: {shoal_command(f'notify test {channel.name}')}"
            )
            yield CheckResult(f"notify {channel.name}", health, says)
    except InvalidSetting as error:
        yield CheckResult("schedules", CheckStatus.BAD, str(error))


def load_jobs(
    scraper: str | None, proxies: str | None, tokens: str | None, queue: str
) -> "list[Job | ShoalError]":
    """Load the named scraper, or all of the project, with the typed settings; one that fails is its error."""
    project = current_project()
    names = [scraper] if scraper else list(project.scrapers)
    typed = {"proxies": proxies, "tokens": tokens}
    changes = dict(read_change(f"{name}={value}") for name, value in typed.items() if value is not None)
    if changes and not names:
        again = shoal_command("check FILE --proxies …")
        raise InvalidInput(f"--proxies and --tokens need a scraper. Run: {again}")
    found: list[Job | ShoalError] = []
    for name in names:
        try:
            loaded = load(project, name)
            changed = loaded.scraper.replace(**changes)
            homes, reference = dict(loaded.homes), loaded.reference
            job = Job(scraper=changed, name=name, reference=reference, queue_url=queue, homes=homes)
            declared_seeds(project, job)
            found.append(job)
        except ShoalError as error:
            found.append(error)
    return found
