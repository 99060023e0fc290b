"""From a command's options to the job that it asks for."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import msgspec

from shoal.cli.options import DEFAULT_MEMORY, DEFAULT_QUEUE
from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.urls import host_of
from shoal.fleet.launch import Job
from shoal.fleet.project import Project
from shoal.scrape.load import load_scraper
from shoal.scrape.values import read_size


def read_job(
    reference: str,
    *,
    queue: str,
    changes: list[str] | None = None,
    urls: list[str] | None = None,
    allow_private: list[str] | None = None,
    memory: str = DEFAULT_MEMORY,
    **more: Any,
) -> Job:
    """Load the scraper and apply the options to it; raises what is wrong with either."""
    project = Project.find(Path.cwd())
    place, settled = reference, {}
    if entry := project.entry(reference):
        place, settled = entry.reference(project.folder), dict(entry.overrides)
    scraper = entry.load(project.folder) if entry else load_scraper(reference)
    typed = dict(read_change(change) for change in changes or [])
    allowed = [*scraper.settings.allow_private, *(allow_private or []), *typed_private(urls or [])]
    if allowed:
        typed["allow_private"] = allowed
    return Job(
        scraper=scraper.replace(**typed),
        name=reference,
        reference=place,
        queue_url=queue,
        overrides=settled | typed,
        typed=typed,
        memory=read_size("--memory", memory),
        **more,
    )


def read_change(text: str) -> tuple[str, Any]:
    """Read KEY=VALUE; a value that is JSON is taken as such, anything else as text."""
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise InvalidSetting("--set", f"takes KEY=VALUE such as rate=5/s, not {text!r}")
    try:
        return key.strip(), msgspec.json.decode(value)
    except msgspec.DecodeError:
        return key.strip(), value.strip()


def typed_private(urls: Iterable[str]) -> Iterator[str]:
    """Yield the hosts of typed URLs that can only be private: who typed them means them."""
    for url in urls:
        try:
            host = host_of(url)
        except InvalidUrl:
            continue  # it is refused and reported when it is enqueued
        name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
        if "." not in name or name.endswith(".localhost") or _is_address(name):
            yield host


def job_options(job: Job) -> list[str]:
    """Return the options that make another command mean the same queue and settings."""
    words = [] if job.queue_url == DEFAULT_QUEUE else ["--queue", job.queue_url]
    for key, value in job.typed.items():
        if key == "allow_private":
            words += [word for host in value for word in ("--allow-private", host)]
        elif key != "mode":
            text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
            words += ["--set", f"{key}={text}"]
    return words


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
