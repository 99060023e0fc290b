"""Builds a job from the options of a command."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from shoal.cli.options.common import DEFAULT_HEARTBEAT, DEFAULT_MEMORY
from shoal.cli.options.setting import read_change
from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.urls import host_of
from shoal.core.values import read_positive_duration, read_size
from shoal.fleet.job import Job
from shoal.fleet.jobs import load, make_job
from shoal.fleet.partitions.table import read_table_file
from shoal.fleet.project.file import Project
from shoal.fleet.sources.declared import start_urls
from shoal.queue.open import load_backend
from shoal.worker.process.forkserver import ForkServer


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
    project = Project.find(Path.cwd())
    loaded = load(project, reference)
    typed = dict(read_change(change) for change in changes or [])
    allowed = [
        *loaded.scraper.settings.allow_private,
        *(allow_private or []),
        *allowed_private_hosts([*(urls or []), *start_urls(project, reference, loaded.scraper)]),
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
        partitions=partitions,
        homes=read_table_file(Path(partition_table)) if partition_table else None,
        heartbeat=read_positive_duration("--heartbeat", heartbeat),
        span=read_positive_duration("--for", span) if span else None,
        **more,
    )


def fork_server_for(queue: str) -> ForkServer:
    """Return a fork server whose workers have the driver of this queue imported already."""
    load_backend(queue)
    return ForkServer(here=True)


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


def allowed_private_hosts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the hosts of typed URLs that can only be private: typing one allows it."""
    for url in urls:
        try:
            host = host_of(url)
        except InvalidUrl:
            continue  # rejected and reported when it is enqueued
        has_port = host.rpartition(":")[2].isdecimal()
        name = host.rpartition(":")[0] if has_port else host
        if "." not in name or name.endswith(".localhost") or _is_address(name):
            # With its port always: a name alone would allow all its ports.
            yield host if has_port else f"{host}:{443 if url.lower().startswith('https:') else 80}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
