"""`shoal deploy`: write the files that deploy a project."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from shoal.cli.configuration import current_config
from shoal.cli.console import put_text, say
from shoal.cli.options import common
from shoal.fleet.project.deployment import Deployment, image_commands, write_deployment


class DeploymentKind(StrEnum):
    """Where a project is deployed to."""

    COMPOSE = "compose"
    KUBERNETES = "kubernetes"
    ECS = "ecs"


NEXT = {
    DeploymentKind.COMPOSE: "cd {folder} && ./prepare.sh && docker compose up --detach --build",
    DeploymentKind.KUBERNETES: "write {folder}/secret.yaml as in secret.example.yaml; see kustomization.yaml",
    DeploymentKind.ECS: "fill in ACCOUNT and REGION in {folder}; docs/how-to/deploy.md has the commands",
}


def deploy(
    kind: Annotated[
        DeploymentKind,
        typer.Argument(metavar="compose|kubernetes|ecs", help="Docker Compose, Kubernetes or Amazon ECS."),
    ],
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help="Folder for the files; by default deploy/KIND.", metavar="DIR"),
    ] = None,
    overwrite: common.Overwrite = False,
) -> None:
    """Write the files that deploy this project, filled in from its shoal.toml.

    They define a service for each entry of [deploy.services] (by default one for all scrapers) and the
    servers of the queue. Secrets are referred to by name. The paths of the files are printed.

    Example: shoal deploy compose
    """
    config = current_config()
    queue = config.text("SHOAL_QUEUE")
    if not queue or queue.startswith("sqlite:"):
        # A file is for this machine, whatever names it; the project's own queue is for containers.
        queue = config.project.variables.get("SHOAL_QUEUE")
    folder = out or config.project.folder / "deploy" / kind
    plan = Deployment.of(config.project, queue)
    for path in write_deployment(config.project, kind, plan, folder.absolute(), overwrite=overwrite):
        put_text(str(_shown(path)))
    if not queue or queue.startswith("sqlite:"):
        say("The queue is PostgreSQL: containers cannot share a file. For another, set queue in shoal.toml.")
    for line in _lines_about_files(plan, kind):
        say(line)
    say("First, once, in a checkout of Shoal:")
    for command in image_commands(plan, has_servers=kind is DeploymentKind.COMPOSE):
        say(f"  {command}")
    say(f"Next: {NEXT[kind].format(folder=_shown(folder))}")


def _lines_about_files(plan: "Deployment", kind: DeploymentKind) -> list[str]:
    """Return what to know about files: folders are of one machine, images can be read, buckets need keys."""
    lines = []
    if plan.secret_files:
        lines.append(
            f"The image will contain {', '.join(plan.secret_files)}, and its users can read them: write "
            "them into .dockerignore, and mount them there."
        )
    if plan.results and kind is DeploymentKind.ECS:
        lines.append(
            f"Results in {plan.results} are lost with the coordinator's task: set storage.results = "
            "'s3://BUCKET/{scraper}.jsonl' or a database in shoal.toml, or mount a volume of EFS there."
        )
    if plan.files and kind is DeploymentKind.COMPOSE:
        folders = ", ".join(plan.files)
        lines.append(
            f"Downloads are in volumes at {folders}. The image must have each folder, owned by user 10001."
        )
    elif plan.files:
        lines.append(
            f"Downloads in {', '.join(plan.files)} are lost with their container: set files = "
            "'s3://BUCKET/PATH' in shoal.toml, or mount a shared volume there."
        )
    if plan.buckets:
        lines.append(
            f"Files go to {', '.join(plan.buckets)}: name the credentials in deploy.secrets, "
            "such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    return lines


def _shown(path: Path) -> Path:
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path
