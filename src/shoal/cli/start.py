"""`shoal start`: one machine of a cluster, in the role that it is given; the project file says the rest."""

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from shoal.cli import options
from shoal.cli.crew import MANNERS, CrewOptions, takes_crew
from shoal.core.errors import InvalidInput, InvalidSetting

if TYPE_CHECKING:
    from shoal.fleet.project import Entry, Project


class Role(StrEnum):
    """What a machine is for."""

    COORDINATOR = "coordinator"
    WORKER = "worker"


@takes_crew(without=(*MANNERS, "allow_private", "changes", "span"))
def start(
    role: Annotated[Role, typer.Option("--role", help="Fill runs and write results, or work on them.")],
    *,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Scrapers of shoal.toml; else as it says.")
    ] = None,
    run_ids: Annotated[
        list[str] | None,
        typer.Option("--run", help="Carry out or work on this run; may be given again.", metavar="RUN"),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option("--queue", envvar="SHOAL_QUEUE", help="Where tasks are kept.", metavar="URL"),
    ] = None,
    crew: CrewOptions,
    as_json: options.Json = False,
) -> None:
    """Start one machine of a cluster that shoal.toml describes.

    A coordinator makes or resumes the runs, fills them, waits, and writes the results. A worker joins the
    newest runs of the project's scrapers, and stays for the next ones.

    Example: shoal start --role worker
    """
    from shoal.cli.roles import coordinate, work
    from shoal.fleet.project import Project

    project = Project.find(Path.cwd())
    address = queue_of(project, queue)
    os.chdir(project.folder)  # names in the file are meant from there
    entries = chosen(project, names, role)
    told = crew.fields(has_data=as_json)
    if role is Role.COORDINATOR:
        # What is counted and traced are tasks, and it works on none.
        raise typer.Exit(
            coordinate(project, entries, address, run_ids or [], {"logs": told["logs"]}, as_json)
        )
    plan = project.cluster.workers
    more = told | {
        "workers": crew.workers or 1,
        "batch": plan.batch_size or 50,
        "steps": told["steps"] or (plan.steps and list(plan.steps)),
        "partitions": told["partitions"] or (plan.partitions and list(plan.partitions)),
    }
    raise typer.Exit(work(entries, address, run_ids or [], more, as_json))


def queue_of(project: "Project", queue: str | None) -> str:
    """Return the queue's address; raises InvalidInput or InvalidSetting for what the project lacks."""
    if project.file is None:
        raise InvalidInput(
            f"There is no shoal.toml in {Path.cwd()} or above it. A cluster needs one: docs/how-to/cluster.md"
        )
    if not queue:
        raise _missing(project, "queue", 'queue = "postgresql://db/shoal"')
    return queue


def chosen(project: "Project", names: list[str] | None, role: Role) -> list["Entry"]:
    """Return the scrapers that were typed, or those that the project file names for this role."""
    if not project.scrapers:
        raise _missing(project, "scrapers", '[scrapers.books] and module = "books.py:books"')
    is_coordinator = role is Role.COORDINATOR
    plan = project.cluster.coordinator if is_coordinator else project.cluster.workers
    if listed := names or plan.scrapers:
        table = "coordinator" if is_coordinator else "workers"
        return _known(project, listed, "NAME" if names else f"{_file(project)}: {table}.scrapers")
    entries = [entry for entry in project.scrapers.values() if entry.seeds or not is_coordinator]
    if not entries:
        first = next(iter(project.scrapers))
        raise _missing(
            project, f"scrapers.{first}.seeds", f'[scrapers.{first}.seeds] and url = ["https://…"]'
        )
    return entries


def _known(project: "Project", names: Sequence[str], key: str) -> list["Entry"]:
    from shoal.core.values import hint

    for name in names:
        if name not in project.scrapers:
            raise InvalidSetting(key, f"{name!r} is no scraper here. {hint(name, project.scrapers)}")
    return [project.scrapers[name] for name in names]


def _missing(project: "Project", key: str, example: str) -> InvalidSetting:
    return InvalidSetting(f"{_file(project)}: {key}", f"is missing; write {example}")


def _file(project: "Project") -> str:
    return project.file.name if project.file else "shoal.toml"
