"""Builds a job from the options of a command."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from shoal.cli.configuration import current_project
from shoal.cli.options.setting import read_change
from shoal.core.errors import InvalidSetting
from shoal.core.values import read_positive_duration, read_size
from shoal.fleet.build_job import is_mode, load, make_job
from shoal.fleet.job import Job
from shoal.fleet.partitions.table import read_table_file
from shoal.fleet.project.config import DEFAULT_HEARTBEAT, DEFAULT_MEMORY
from shoal.fleet.project.file import Project
from shoal.fleet.sources.declared import declared_private_hosts
from shoal.fleet.sources.names import allowed_private_hosts


def read_job(
    reference: str,
    *,
    queue: str,
    changes: list[str] | None = None,
    urls: list[str] | None = None,
    allow_private: list[str] | None = None,
    args: list[str] | None = None,
    memory: str = DEFAULT_MEMORY,
    partitions: list[str] | None = None,
    partition_table: str | None = None,
    heartbeat: str = DEFAULT_HEARTBEAT,
    span: str | None = None,
    **more: Any,
) -> Job:
    """Load the scraper and apply the options to it; raises an error of either."""
    project = current_project()
    loaded = load(project, reference)
    typed = dict(read_change(change) for change in changes or [])
    allowed = [
        *loaded.scraper.settings.allow_private,
        *(allow_private or []),
        *allowed_private_hosts(urls or []),
        *declared_private_hosts(project, reference, loaded.scraper),
    ]
    if allowed:
        typed["allow_private"] = list(dict.fromkeys(allowed))
    return make_job(
        reference,
        loaded,
        queue_url=queue,
        settings=typed,
        args=read_args(args or []),
        memory=read_size("--memory", memory),
        partitions=partitions or _sharing_mode(project),
        homes=read_table_file(Path(partition_table)) if partition_table else None,
        heartbeat=read_positive_duration("--heartbeat", heartbeat),
        span=read_positive_duration("--for", span) if span else None,
        **more,
    )


def _sharing_mode(project: Project) -> list[str] | None:
    """Return how the project's workers share all partitions; names are for the machines of a cluster only."""
    found = list(project.cluster.workers.partitions or ())
    return found if is_mode(found) else None


def read_args(texts: Iterable[str]) -> dict[str, Any]:
    """Read NAME=VALUE for each argument; one that is given several times is a list."""
    found: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.strip():
            raise InvalidSetting("-a", f"takes NAME=VALUE such as category=books, not {text!r}")
        before = found.get(name.strip())
        listed = before if isinstance(before, list) else [] if before is None else [before]
        found[name.strip()] = [*listed, value] if listed else value
    return found
