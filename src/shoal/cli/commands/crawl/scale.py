"""`shoal scale`: scale the workers of a run between a minimum and a maximum."""

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from msgspec.structs import replace

from shoal.cli.console import counted, put_json, say
from shoal.cli.open_queue import with_run
from shoal.cli.options import common
from shoal.cli.options.workers import WorkerOptions, read_change, takes_worker_options
from shoal.cli.progress import Printer
from shoal.cli.signals import obey_signals, on_signals
from shoal.core.errors import InvalidSetting
from shoal.core.values import read_duration, read_positive_duration
from shoal.fleet.command_hints import command_on
from shoal.fleet.job import Job
from shoal.fleet.run.settings import use_settings
from shoal.fleet.scale.autoscaler import Autoscaler, ScaleDecision
from shoal.fleet.scale.decide import ScaleBounds, pace_of
from shoal.fleet.scale.drivers import ComposeWorkers, Driver, KubernetesWorkers
from shoal.fleet.scale.local import LocalWorkers, NoWorkers, SharedForkServer
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import find_setting

NOT_FOR_SCALE = ("workers", "span", "partition_table", "heartbeat", "metrics", "trace")


class WorkerLocation(StrEnum):
    """Where workers run."""

    LOCAL = "local"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"


@takes_worker_options(sections=(), without=NOT_FOR_SCALE)
def scale(
    run_id: common.RunId,
    most: Annotated[int, typer.Option("--max", help="Maximum number of workers.", metavar="N")],
    *,
    scraper: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE[:NAME]|NAME]",
            help="Scraper for workers on this machine; by default the run's scraper in shoal.toml.",
        ),
    ] = None,
    least: Annotated[int, typer.Option("--min", help="Minimum number of workers.", metavar="N")] = 0,
    tasks_per_worker: Annotated[
        int,
        typer.Option("--tasks-per-worker", help="Ready tasks per worker.", metavar="N"),
    ] = 500,
    cooldown: Annotated[
        str,
        typer.Option("--cooldown", help="Wait this long before scaling down.", metavar="TIME"),
    ] = "30s",
    every: Annotated[
        str, typer.Option("--every", help="Interval between two decisions.", metavar="TIME")
    ] = "5s",
    pace: Annotated[
        float | None,
        typer.Option(
            "--pace",
            help="Pages per second of one worker when no rate limit slows it down: 10 by default, or less if "
            "the run has a pause.",
            metavar="N",
        ),
    ] = None,
    place: Annotated[
        WorkerLocation, typer.Option("--on", help="Where the workers run.")
    ] = WorkerLocation.LOCAL,
    service: Annotated[
        str, typer.Option("--service", help="With --on compose: service to scale.", metavar="NAME")
    ] = "worker",
    deployment: Annotated[
        str, typer.Option("--deployment", help="With --on kubernetes: Deployment to scale.", metavar="NAME")
    ] = "shoal-worker",
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace", help="With --on kubernetes: namespace of the Deployment.", metavar="NAME"
        ),
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Decide once and exit; with --on local, only print the decision.")
    ] = False,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Exit when the run has no tasks left.")
    ] = False,
    queue: common.Queue = common.DEFAULT_QUEUE,
    worker_options: WorkerOptions,
    as_json: common.Json = False,
) -> None:
    """Autoscale the workers of a run: up at once, down after a cooldown, to --min when idle.

    Only tasks that are ready or in progress count, not the whole backlog, and there are never more workers
    than the rate limits of the hosts can keep busy.

    Example: shoal scale newest books.py --max 20
    """
    if pace is not None and not 0 < pace < float("inf"):
        raise InvalidSetting("--pace", f"must be more than zero, got {pace:g}")
    bounds = ScaleBounds(
        most=most,
        least=least,
        tasks_per_worker=tasks_per_worker,
        cooldown=read_duration("--cooldown", cooldown),
    )
    interval = read_positive_duration("--every", every)
    printer = Printer(as_json=as_json)
    driver = driver_for(place, service, deployment, namespace)
    # Before any thread, and only where workers start on this machine.
    fork_server = SharedForkServer(here=True) if driver is None and not once else None

    def job_of(name: str) -> Job:
        return worker_options.job(scraper or name, queue)

    async def scaled(opened: Queue, found: str) -> None:
        run = await opened.run(found)
        options: dict[str, Any] = {
            "bounds": bounds,
            "every": interval,
            "pace": pace,
            "on_decision": decision_printer(as_json),
            "on_trouble": printer.on_message,
        }
        if fork_server is None:
            # Workers elsewhere have no use for a setting typed here; only the decision has.
            options["pace"] = pace or _typed_pace(worker_options.typed.get("changes") or [])
            if scraper is not None:
                job_of(scraper)  # a wrong name is refused
            scaler = Autoscaler(opened, found, driver or NoWorkers(), **options)
            if once:
                options["on_decision"](await scaler.step())
                return
            on_signals(lambda advice: scaler.stop())
            await scaler.run(until_drained=until_drained)
            printer.on_message("Stopped scaling; the workers keep running.")
            return
        job, notice = await use_settings(opened, replace(job_of(run.scraper), joins=True), run)
        if notice:
            printer.on_message(notice)
        async with LocalWorkers(opened, job, run, printer, fork_server=fork_server) as workers:
            scaler = Autoscaler(opened, found, workers, **options)
            obey_signals(_BothOutputs(scaler, workers), printer.on_message)
            await scaler.run(until_drained=until_drained)
            await workers.wait_until_ended()
        stats = await opened.stats(found)
        done, dead = counted(stats.completed, "task"), counted(stats.dead, "dead letter")
        look = command_on(queue, f"status {found}")
        printer.on_message(
            f"Run {found}: {done} completed, {dead}, {stats.remaining:,} left. Details: {look}"
        )

    with_run(queue, run_id, scaled)


def driver_for(place: WorkerLocation, service: str, deployment: str, namespace: str | None) -> Driver | None:
    """Return the driver for Compose or Kubernetes; raises InvalidInput when its program is missing."""
    match place:
        case WorkerLocation.LOCAL:
            return None
        case WorkerLocation.COMPOSE:
            return ComposeWorkers(service)
        case WorkerLocation.KUBERNETES:
            return KubernetesWorkers(deployment, namespace=namespace)


def decision_printer(as_json: bool) -> Callable[[ScaleDecision], None]:
    """Return a function that prints decisions: all of them as JSON, else only those that change something."""
    last: list[tuple[int, bool]] = []

    def tell(decision: ScaleDecision) -> None:
        if as_json:
            put_json(decision.as_json())
            return
        shown = (decision.target, decision.wanted.wasted > 0)
        if shown not in last:
            say(f"{decision.workers} -> {counted(decision.target, 'worker')}: {decision.why}")
        last[:] = [shown]

    return tell


def _typed_pace(changes: Sequence[str]) -> float | None:
    """Return the pace that a typed pause allows; None without one."""
    typed = dict(map(read_change, changes))
    return pace_of(find_setting("pause").read("pause", typed["pause"])) if "pause" in typed else None


class _BothOutputs:
    """A scaler and its workers, stopped together."""

    def __init__(self, scaler: Autoscaler, workers: LocalWorkers) -> None:
        self._scaler, self._workers = scaler, workers

    @property
    def in_hand(self) -> int:
        """Number of leases that the workers hold."""
        return self._workers.in_hand

    def stop(self) -> int:
        """Stop scaling and let the workers finish; the second call releases their tasks, the third kills."""
        self._scaler.stop()
        return self._workers.stop()
