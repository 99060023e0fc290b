"""`shoal start`: start one machine of a cluster in its role; the project file configures the rest."""

import os
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.commands.crawl.start_roles import coordinate, work
from shoal.cli.configuration import current_project
from shoal.cli.options import common
from shoal.cli.options.workers import WorkerOptions, takes_worker_options
from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.values import hint
from shoal.fleet.build_job import load
from shoal.fleet.project.file import Project, ProjectScraper


class Role(StrEnum):
    """Role of a machine in a cluster."""

    COORDINATOR = "coordinator"
    WORKER = "worker"


@takes_worker_options(sections=(), without=("allow_private", "changes", "span"))
def start(
    role: Annotated[
        Role, typer.Option("--role", help="coordinator fills runs and writes results; worker works on them.")
    ],
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...", help="Scrapers in shoal.toml; by default those it lists for the role."
        ),
    ] = None,
    run_ids: Annotated[
        list[str] | None,
        typer.Option(
            "--run",
            help="Only this run: its id, the start of it, or newest; repeatable for workers.",
            metavar="RUN|newest",
        ),
    ] = None,
    queue: Annotated[
        str | None,
        typer.Option(
            "--queue",
            callback=common.use_queue,
            envvar="SHOAL_QUEUE",
            help="Queue that stores tasks and results; by default the one in shoal.toml.",
            metavar="URL",
        ),
    ] = None,
    worker_options: WorkerOptions,
    as_json: common.Json = False,
) -> None:
    """Start this machine as the coordinator or a worker of the cluster that shoal.toml describes.

    The coordinator creates or resumes runs, fills them, waits, and writes the results. A worker joins the
    newest runs of the project's scrapers and then waits for the next ones.

    Example: shoal start --role worker
    """
    project = current_project()
    address = queue_of(project, queue)
    os.chdir(project.folder)  # paths in the file are relative to it
    entries = chosen(project, names, role)
    told = worker_options.fields(has_data=as_json)
    if role is Role.COORDINATOR:
        # No metrics and traces: they are about tasks, and a coordinator works on none.
        raise typer.Exit(
            coordinate(project, entries, address, run_ids or [], {"logs": told["logs"]}, as_json)
        )
    plan = project.cluster.workers
    more = told | {
        "workers": worker_options.workers or 1,
        "batch": plan.batch_size or 50,
        "steps": told["steps"] or (plan.steps and list(plan.steps)),
        "partitions": told["partitions"] or (plan.partitions and list(plan.partitions)),
    }
    raise typer.Exit(work(entries, address, run_ids or [], more, as_json))


def queue_of(project: "Project", queue: str | None) -> str:
    """Return the queue's URL; raises InvalidInput or InvalidSetting if the project lacks it."""
    if project.file is None:
        raise InvalidInput(
            f"No shoal.toml in {Path.cwd()} or a parent folder. A cluster needs one: docs/how-to/cluster.md"
        )
    if not queue:
        raise _missing(project, "queue", 'queue = "postgresql://db/shoal"')
    return queue


def chosen(project: "Project", names: list[str] | None, role: Role) -> list["ProjectScraper"]:
    """Return the typed scrapers, or those that the project file lists for this role."""
    if not project.scrapers:
        raise _missing(project, "scrapers", '[scrapers.books] and module = "books.py:books"')
    is_coordinator = role is Role.COORDINATOR
    plan = project.cluster.coordinator if is_coordinator else project.cluster.workers
    if listed := names or plan.scrapers:
        table = "coordinator" if is_coordinator else "workers"
        return _known(project, listed, "NAME" if names else f"{_file(project)}: {table}.scrapers")
    entries = [
        entry for entry in project.scrapers.values() if not is_coordinator or _has_seeds(project, entry)
    ]
    if not entries:
        first = next(iter(project.scrapers))
        raise _missing(
            project, f"scrapers.{first}.seeds", f'[scrapers.{first}.seeds] and url = ["https://…"]'
        )
    return entries


def _has_seeds(project: "Project", entry: "ProjectScraper") -> bool:
    """Return whether the project or the scraper itself declares seeds; not for one that cannot be loaded."""
    try:
        return bool(entry.seeds) or load(project, entry.name).scraper.has_seeds
    except InvalidInput:
        return False


def _known(project: "Project", names: Sequence[str], key: str) -> list["ProjectScraper"]:
    for name in names:
        if name not in project.scrapers:
            raise InvalidSetting(
                key, f"{name!r} is not a scraper of this project. {hint(name, project.scrapers)}"
            )
    return [project.scrapers[name] for name in names]


def _missing(project: "Project", key: str, example: str) -> InvalidSetting:
    return InvalidSetting(f"{_file(project)}: {key}", f"is missing; add {example}")


def _file(project: "Project") -> str:
    return project.file.name if project.file else "shoal.toml"
