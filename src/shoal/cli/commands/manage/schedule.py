"""The commands below `schedule`: runs that repeat."""

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from shoal.cli.commands.crawl.start_roles import RolePrinter
from shoal.cli.configuration import current_project
from shoal.cli.console import put_json, put_text, say
from shoal.cli.open_queue import with_existing_queue, with_queue
from shoal.cli.options import common
from shoal.cli.options.help import SectionedCommand
from shoal.cli.options.sources import takes_sources
from shoal.cli.options.workers import read_args, read_change, read_job
from shoal.cli.signals import obey_signals
from shoal.cli.tables import put_rows
from shoal.core.errors import InvalidSetting
from shoal.core.values import counted
from shoal.fleet.app import App
from shoal.fleet.command_hints import command_on
from shoal.fleet.notify.notifier import Notifier
from shoal.fleet.schedule.plan import MAX_HISTORY, ScheduleRecord
from shoal.fleet.schedule.rows import OccurrenceRow, ScheduleRow, is_new
from shoal.fleet.schedule.store import Schedules
from shoal.fleet.schedule_coordinator import ScheduleCoordinator
from shoal.fleet.sources.declared import named_from_anywhere, within
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue
from shoal.worker.run_settings import storable

app = typer.Typer(no_args_is_help=True, help="Runs that repeat: add, list, pause and fire schedules.")

Name = Annotated[
    str, typer.Argument(metavar="NAME", help="The schedule. List them with: shoal schedule list")
]
NO_COORDINATOR = "Schedules fire while a coordinator runs. To start one with workers here, run: {}"


@app.command(cls=SectionedCommand)
@takes_sources
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the new schedule.")],
    scraper: common.Scraper,
    seeds: Seeds,
    *,
    cron: Annotated[
        str | None,
        typer.Option(
            "--cron", help="Five fields: minute, hour, day, month, day of the week.", metavar='"0 2 * * *"'
        ),
    ] = None,
    every: Annotated[
        str | None,
        typer.Option("--every", help="Instead of --cron: an interval, such as 6h.", metavar="TIME"),
    ] = None,
    timezone: Annotated[
        str, typer.Option("--timezone", help="Time zone of --cron, such as Europe/Berlin.", metavar="ZONE")
    ] = "UTC",
    jitter: Annotated[
        str, typer.Option("--jitter", help="Begin at random, up to this long after the time.", metavar="TIME")
    ] = "0s",
    overlap: Annotated[
        str,
        typer.Option("--overlap", help="While the run before is not over.", metavar="skip|wait|cancel"),
    ] = "skip",
    missed: Annotated[
        str,
        typer.Option(
            "--missed", help="After no coordinator was there: run once, or skip.", metavar="once|skip"
        ),
    ] = "once",
    time_limit: Annotated[
        str | None,
        typer.Option("--time-limit", help="End a run after this time, with tasks left.", metavar="TIME"),
    ] = None,
    args: common.Args = None,
    changes: common.Settings = None,
    out: Annotated[
        str | None,
        typer.Option(
            "--out",
            "-o",
            help="Write the items of each run there: a file with {run} in its name, or a table.",
            metavar="FILE",
        ),
    ] = None,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Add a schedule to the queue. One that the whole team shares is better in shoal.toml: [schedules.NAME].

    Example: shoal schedule add nightly books --cron "0 2 * * *" --timezone Europe/Berlin
    """
    # Raises what is wrong now rather than at night.
    read_job(scraper, queue=queue, changes=changes, args=args, urls=seeds.addresses)
    if seeds.file == "-":
        raise InvalidSetting(
            "--urls-file", "is read by every run, so standard input cannot be used. Name a file"
        )
    typed = dict(read_change(change) for change in changes or [])
    settings, withheld = storable(typed)
    given: dict[str, Any] = {
        "scraper": _lasting(scraper),
        "cron": cron,
        "every": every,
        "timezone": timezone,
        "jitter": jitter,
        "overlap": overlap,
        "missed": missed,
        "time_limit": time_limit,
        "args": read_args(args or []),
        "seeds": named_from_anywhere(seeds),
        "settings": settings | {name: typed[name] for name in withheld},  # which is refused
        "out": out and within(Path.cwd(), out),
    }
    table = {key: value for key, value in given.items() if value not in (None, {})}
    record = _with(queue, lambda schedules: schedules.add(name, table), creates=True)
    _report(record, f"Added {name}: {record.schedule.words}. Next: {_next(record)}.", as_json=as_json)
    if not as_json:
        say(NO_COORDINATOR.format(command_on(queue, "schedule run")))


def _lasting(scraper: str) -> str:
    """Return a scraper's name so that a process in another folder finds it."""
    file, colon, name = scraper.partition(":")
    if current_project().entry(scraper) is None and file.endswith(".py"):
        return f"{Path(file).absolute()}{colon}{name}"
    return scraper


@app.command("list")
def list_(
    queue: common.Queue = common.DEFAULT_QUEUE, wide: common.Wide = False, as_json: common.Json = False
) -> None:
    """List the schedules with their next occurrence and the outcomes of the last ones.

    In the strip of outcomes, + is a complete run, ~ one with warnings, ! any other, > one at work, . due,
    and - skipped or missed.
    """
    records = _with(queue, Schedules.all)
    rows = [ScheduleRow.from_record(record) for record in records]
    example = command_on(queue, 'schedule add nightly NAME --cron "0 2 * * *"')
    put_rows(
        rows, ScheduleRow.columns, as_json=as_json, wide=wide, nothing=f"No schedules yet. Add one: {example}"
    )
    if not as_json and any(is_new(record) for record in records):
        say(NO_COORDINATOR.format(command_on(queue, "schedule run")))


@app.command()
def show(name: Name, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """Show what a schedule says, its next occurrence and the last ones."""
    record = _with(queue, lambda schedules: schedules.get(name))
    row = ScheduleRow.from_record(record)
    if as_json:
        put_json(row)
        return
    where = "shoal.toml" if row.in_project_file else "the queue"
    put_text(f"{name}: {row.when}; {row.state}; kept in {where}\nnext: {_next(record)}")
    for key, value in row.table.items():
        put_text(f"{key}: {value}")
    _put_occurrences(record, 5, as_json=False)


@app.command()
def history(
    name: Name,
    limit: Annotated[
        int, typer.Option(min=1, max=MAX_HISTORY, help="Maximum number of rows.", metavar="N")
    ] = 20,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """List the last occurrences of a schedule, the newest first, with their runs and outcomes."""
    _put_occurrences(_with(queue, lambda schedules: schedules.get(name)), limit, as_json=as_json)


@app.command()
def pause(name: Name, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """Pause a schedule: nothing becomes due until you resume it. A run that has begun goes on."""
    record = _with(queue, lambda schedules: schedules.pause(name), creates=True)
    again = command_on(queue, f"schedule resume {name}")
    _report(record, f"Paused. To resume it, run: {again}", as_json=as_json)


@app.command()
def resume(name: Name, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """Resume a paused schedule with its next occurrence; what was due meanwhile is not made up for."""
    record = _with(queue, lambda schedules: schedules.resume(name), creates=True)
    _report(record, f"Resumed. Next: {_next(record)}.", as_json=as_json)


@app.command()
def remove(name: Name, queue: common.Queue = common.DEFAULT_QUEUE) -> None:
    """Remove a schedule and its history; its runs and their items stay."""
    _with(queue, lambda schedules: schedules.remove(name))
    say(f"Removed {name}. Its runs stay: {command_on(queue, 'runs')}")


@app.command("run-now")
def run_now(name: Name, queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """Run a schedule once now, beside its times; a paused one too."""
    record = _with(queue, lambda schedules: schedules.run_now(name), creates=True)
    run_id = record.occurrences[-1].run_id
    waits = f", after run {record.open[0].run_id}" if len(record.open) > 1 else ""
    text = f"Run {run_id} begins{waits} when a coordinator sees it: {command_on(queue, 'schedule run')}"
    _report(record, text, as_json=as_json)


@app.command()
def run(
    workers: Annotated[
        int, typer.Option("--workers", "-w", min=0, help="Worker processes for each scraper.", metavar="N")
    ] = 1,
    queue: common.Queue = common.DEFAULT_QUEUE,
    as_json: common.Json = False,
) -> None:
    """Fire the schedules until Ctrl-C, and work on their runs in this process.

    Any number of these and of `shoal serve --schedules` may run at the same time: each occurrence is fired
    once, and when one of them dies, another takes over its run. With --workers 0 it leaves the work to
    `shoal start --role worker`.

    Example: shoal schedule run --workers 2
    """
    with_queue(queue, lambda opened: _serve(opened, queue, workers, as_json))


async def _serve(queue: Queue, url: str, workers: int, as_json: bool) -> None:
    teller = RolePrinter(as_json=as_json)
    project = current_project()
    notifier = Notifier(queue, project, teller.on_message)
    scheduler = ScheduleCoordinator(App(queue, url, project), teller, workers=workers, notifier=notifier)
    obey_signals(scheduler, teller.on_message)
    serving = f"with {counted(workers, 'worker')} for each scraper" if workers else "without workers"
    teller.on_message(f"Firing schedules, {serving} (Ctrl-C to stop).")
    async with notifier:
        await scheduler.serve()


def _with(queue: str, work: Callable[[Schedules], Awaitable[Any]], *, creates: bool = False) -> Any:
    project = current_project()
    opened = with_queue if creates else with_existing_queue
    return opened(queue, lambda found: work(Schedules(found, project)))


def _next(record: ScheduleRecord) -> str:
    if record.paused:
        return "never, it is paused"
    if record.next_at is None:
        return "when a coordinator has read it" if is_new(record) else "never again"
    return f"{record.next_at:%Y-%m-%d %H:%M:%S} UTC"


def _report(record: ScheduleRecord, text: str, *, as_json: bool) -> None:
    if as_json:
        put_json(ScheduleRow.from_record(record))
    else:
        say(text)


def _put_occurrences(record: ScheduleRecord, limit: int, *, as_json: bool) -> None:
    rows = [OccurrenceRow.from_occurrence(one) for one in record.occurrences[: -limit - 1 : -1]]
    nothing = "No occurrence yet."
    put_rows(rows, OccurrenceRow.columns, as_json=as_json, nothing=nothing)
