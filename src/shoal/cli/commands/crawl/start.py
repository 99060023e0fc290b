"""`shoal start`: start one machine of a cluster in its role; the project file configures the rest."""

import os
from typing import Annotated

import typer

from shoal.cli.commands.crawl.start_roles import coordinate, work
from shoal.cli.configuration import current_project
from shoal.cli.options import common
from shoal.cli.options.workers import WorkerOptions, takes_worker_options
from shoal.fleet.cluster_roles import Role, queue_of, scrapers_of


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
    newest runs of the project's scrapers and then waits for the next ones. Schedules are fired by
    `shoal schedule run`.

    Example: shoal start --role worker
    """
    project = current_project()
    address = queue_of(project, queue)
    os.chdir(project.folder)  # paths in the file are relative to it
    entries = scrapers_of(project, role, names)
    told = worker_options.fields(has_data=as_json)
    if role is Role.COORDINATOR:
        # No metrics and traces: they are about tasks, and a coordinator works on none.
        more = {"logs": told["logs"]}
        raise typer.Exit(coordinate(project, entries, address, run_ids or [], more, as_json=as_json))
    plan = project.cluster.workers
    more = told | {
        "workers": worker_options.workers or 1,
        "batch": plan.batch_size or 50,
        "steps": told["steps"] or (plan.steps and list(plan.steps)),
        "partitions": told["partitions"] or (plan.partitions and list(plan.partitions)),
    }
    raise typer.Exit(work(entries, address, run_ids or [], more, plan.count, as_json))
