"""`shoal scale`: as many workers on a run as it can use, from none to a most, and back."""

from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json, say
from shoal.cli.crew import MANNERS, CrewOptions, takes_crew
from shoal.core.errors import RunConflict

if TYPE_CHECKING:
    from shoal.fleet.drivers.contract import Driver
    from shoal.fleet.drivers.local import LocalWorkers, SharedNursery
    from shoal.fleet.launch import Job
    from shoal.fleet.scaler import Decision, Scaler
    from shoal.queue.contract import Queue

    Tell = Callable[[Decision], None]
    Paced = Callable[[Queue], Awaitable[dict[str, Any]]]


NOT_OF_A_SCALER = ("workers", "span", "partition_table", "heartbeat", *MANNERS, "metrics", "trace")


class Place(StrEnum):
    """Where workers live."""

    LOCAL = "local"
    COMPOSE = "compose"
    KUBERNETES = "kubernetes"


@takes_crew(without=NOT_OF_A_SCALER)
def scale(
    run_id: options.RunId,
    most: Annotated[int, typer.Option("--max", help="The most workers.", metavar="N")],
    *,
    scraper: Annotated[
        str | None,
        typer.Argument(
            metavar="[FILE[:NAME]|NAME]",
            help="The scraper, for workers of this machine; else the run's name is looked up in shoal.toml.",
        ),
    ] = None,
    least: Annotated[int, typer.Option("--min", help="The fewest workers.", metavar="N")] = 0,
    tasks_per_worker: Annotated[
        int,
        typer.Option(
            "--tasks-per-worker", help="How many tasks that can be done now are one worker's.", metavar="N"
        ),
    ] = 500,
    cooldown: Annotated[
        str,
        typer.Option(
            "--cooldown", help="How long fewer workers must have been enough before some go.", metavar="TIME"
        ),
    ] = "30s",
    every: Annotated[str, typer.Option("--every", help="How often to look.", metavar="TIME")] = "5s",
    pace: Annotated[
        float | None,
        typer.Option(
            "--pace",
            help="Pages that one worker does in a second when no host holds it up.",
            metavar="N",
            show_default="10, or what the scraper's pause allows",
        ),
    ] = None,
    place: Annotated[Place, typer.Option("--on", help="Where the workers live.")] = Place.LOCAL,
    service: Annotated[
        str, typer.Option("--service", help="With --on compose: the service.", metavar="NAME")
    ] = "worker",
    deployment: Annotated[
        str, typer.Option("--deployment", help="With --on kubernetes: the Deployment.", metavar="NAME")
    ] = "shoal-worker",
    namespace: Annotated[
        str | None, typer.Option("--namespace", help="With --on kubernetes: its namespace.", metavar="NAME")
    ] = None,
    once: Annotated[
        bool, typer.Option("--once", help="Decide once and leave; of local workers only say how many.")
    ] = False,
    until_drained: Annotated[
        bool, typer.Option("--until-drained", help="Leave when nothing is left to do.")
    ] = False,
    queue: options.Queue = options.DEFAULT_QUEUE,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Have as many workers on a run as it can use: more at once, fewer after a cool-down, none when it rests.

    Counted are the tasks that can be done now and those in hand, never the whole backlog; and never are there
    more workers than the hosts' politeness can keep busy.

    Example: shoal scale 20260215_120000_ab12 books.py --max 20
    """
    from shoal.core.errors import InvalidSetting
    from shoal.core.values import read_duration, read_positive_duration
    from shoal.fleet.drivers.local import SharedNursery
    from shoal.fleet.scaling import Bounds

    if pace is not None and not 0 < pace < float("inf"):
        raise InvalidSetting("--pace", f"must be more than zero, got {pace:g}")
    bounds = Bounds(
        most=most,
        least=least,
        tasks_per_worker=tasks_per_worker,
        cooldown=read_duration("--cooldown", cooldown),
    )
    wanted = {"bounds": bounds, "every": read_positive_duration("--every", every)}
    tell = teller(as_json)

    def job_of(name: str) -> "Job":
        return crew.job(scraper or name, queue)

    async def paced(opened: "Queue") -> dict[str, Any]:
        """Return what is wanted, with the pace that was typed or that the scraper's pause allows."""
        found = pace or await _pace(opened, run_id, job_of, must_load=scraper is not None)
        return wanted | {"pace": found}

    if place is not Place.LOCAL:
        driver = elsewhere(place, service, deployment, namespace)
        ask(queue, lambda opened: _elsewhere(opened, run_id, driver, paced, tell, once, until_drained))
        return
    if once:
        ask(queue, lambda opened: _look(opened, run_id, paced, tell))
        return
    nursery = SharedNursery(here=True)
    ask(queue, lambda opened: _locally(opened, run_id, job_of, nursery, paced, tell, until_drained))


def elsewhere(place: Place, service: str, deployment: str, namespace: str | None) -> "Driver":
    """Return what has the workers of another place; raises InvalidInput when its program is not there."""
    from shoal.fleet.drivers.command import ComposeWorkers, KubernetesWorkers

    if place is Place.COMPOSE:
        return ComposeWorkers(service)
    return KubernetesWorkers(deployment, namespace=namespace)


def teller(as_json: bool) -> "Tell":
    """Return what shows decisions: all of them as JSON, or those that change something to a person."""
    last: list[tuple[int, bool]] = []

    def tell(decision: "Decision") -> None:
        if as_json:
            put_json(decision.as_json())
            return
        shown = (decision.target, decision.wish.wasted > 0)
        if shown not in last:
            say(f"{decision.workers} -> {decision.target} workers: {decision.why}")
        last[:] = [shown]

    return tell


async def _pace(queue: "Queue", run_id: str, job_of: "Callable[[str], Job]", *, must_load: bool) -> float:
    from shoal.core.errors import ShoalError
    from shoal.fleet.forecast import PACE, pace_of

    run = await queue.run(run_id)
    try:
        return pace_of(job_of(run.scraper).scraper.settings.pause)
    except ShoalError:
        if must_load:
            raise
        return PACE  # the machine that scales other machines need not have the scraper


async def _look(queue: "Queue", run_id: str, paced: "Paced", tell: "Tell") -> None:
    from shoal.fleet.drivers.local import Nobody
    from shoal.fleet.scaler import Scaler

    tell(await Scaler(queue, run_id, Nobody(), **await paced(queue)).look())


async def _elsewhere(
    queue: "Queue",
    run_id: str,
    driver: "Driver",
    paced: "Paced",
    tell: "Tell",
    once: bool,
    until_drained: bool,
) -> None:
    from shoal.cli.stopping import on_signals
    from shoal.fleet.scaler import Scaler

    scaler = Scaler(queue, run_id, driver, **await paced(queue), on_decision=tell, on_trouble=say)
    if once:
        tell(await scaler.look())
        return
    on_signals(lambda advice: scaler.stop())
    await scaler.run(until_drained=until_drained)
    say("Stopped scaling; the workers stay as they are.")


async def _locally(
    queue: "Queue",
    run_id: str,
    job_of: "Callable[[str], Job]",
    nursery: "SharedNursery",
    paced: "Paced",
    tell: "Tell",
    until_drained: bool,
) -> None:
    from shoal.cli.stopping import obey_signals
    from shoal.fleet.drivers.local import LocalWorkers
    from shoal.fleet.launch import books_of
    from shoal.fleet.scaler import Scaler

    run = await queue.run(run_id)
    job = job_of(run.scraper)
    if job.scraper.name != run.scraper:
        raise RunConflict.of_another(run_id, run.scraper, job.scraper.name)
    with books_of(job, run) as logs:
        hired = LocalWorkers(queue, job, run, nursery=nursery, on_event=say, on_output=say, logs=logs)
        async with hired as workers:
            wanted = await paced(queue)
            scaler = Scaler(queue, run_id, workers, **wanted, on_decision=tell, on_trouble=say)
            obey_signals(_Both(scaler, workers), say)
            await scaler.run(until_drained=until_drained)
            await workers.ended()


class _Both:
    """A scaler and its workers, which end together."""

    def __init__(self, scaler: "Scaler", workers: "LocalWorkers") -> None:
        self._scaler, self._workers = scaler, workers

    @property
    def in_hand(self) -> int:
        """How many leases the workers hold."""
        return self._workers.in_hand

    def stop(self) -> int:
        """Scale no more, and let the workers finish; then hand back, then kill."""
        self._scaler.stop()
        return self._workers.stop()
