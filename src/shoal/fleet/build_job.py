"""Build a job from a scraper's name: the same for commands, programs and the JSON API."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

from shoal.core.errors import InvalidSetting, ShoalError, UnknownScraper
from shoal.core.model import NOTHING, Run
from shoal.core.text import shorten
from shoal.fleet.job import Job
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import LoadedScraper, load
from shoal.fleet.sources.declared import declared_private_hosts
from shoal.scrape.scraper import HTTP_ONLY, Scraper
from shoal.worker.fetchers.chain import check_fetchers
from shoal.worker.partitions import PartitionMode
from shoal.worker.run_settings import replaced


def make_job(
    name: str,
    loaded: LoadedScraper,
    *,
    queue_url: str,
    settings: Mapping[str, Any] = NOTHING,
    args: Mapping[str, Any] = NOTHING,
    partitions: Sequence[str] | None = None,
    homes: Mapping[str, int] | None = None,
    **more: Any,
) -> Job:
    """Return the job of a scraper with some settings changed.

    Without `partitions`, its workers share all of them as the project says. `homes` is a table of partition
    to worker number; by default it is the project's, unless partitions are named.
    """
    named = list(partitions or filter(None, [loaded.mode])) or None
    if homes is None:
        homes = NOTHING if named and not is_mode(named) else loaded.homes
    typed = loaded.scraper.group_settings(settings)
    loaded.scraper.declared_args.check(args)
    scraper = loaded.scraper.replace(**typed)
    if scraper.fetchers - HTTP_ONLY:
        check_fetchers(scraper.fetchers)
    return Job(
        scraper=scraper,
        name=name,
        reference=loaded.reference,
        queue_url=queue_url,
        overrides=replaced(loaded.overrides, typed),
        typed=typed,
        args={**loaded.args, **args},
        typed_args=dict(args),
        base=loaded.scraper,
        partitions=read_partitions(named, bool(homes)),
        homes=dict(homes),
        **more,
    )


def check_served(steps: Iterable[str] | None, *scrapers: Scraper, option: str = "--steps") -> None:
    """Raise InvalidSetting for a step that no scraper has: its workers would wait for ever."""
    known = list(dict.fromkeys(step for scraper in scrapers for step in scraper.steps))
    names = " and ".join(repr(scraper.name) for scraper in scrapers)
    for step in steps or ():
        if step not in known:
            raise InvalidSetting(
                option,
                f"names {shorten(repr(step))}, which {names} does not have. Its steps: {', '.join(known)}",
            )


def is_mode(partitions: Sequence[str]) -> bool:
    """Return whether `partitions` is a sharing mode instead of names."""
    return len(partitions) == 1 and partitions[0] in list(PartitionMode)


def read_partitions(partitions: list[str] | None, has_table: bool) -> list[str] | None:
    """Return the partitions or the sharing mode; a table implies `auto`."""
    if not has_table:
        return partitions
    if partitions and not is_mode(partitions):
        raise InvalidSetting(
            "--partition-table",
            "assigns all partitions; leave out --partitions, or set it to auto or exclusive",
        )
    return partitions or [PartitionMode.AUTO]


def project_job(
    project: Project,
    queue_url: str,
    name: str,
    settings: Mapping[str, Any] | None = None,
    args: Mapping[str, Any] = NOTHING,
) -> Job:
    """Return the job of a scraper by its name in the project; files and modules are not accepted."""
    if name not in project.scrapers:
        raise UnknownScraper(name, list(project.scrapers))
    loaded = load(project, name)
    allowed = with_declared_hosts(project, name, loaded.scraper, settings or NOTHING)
    return make_job(name, loaded, queue_url=queue_url, settings=allowed, args=args)


def with_declared_hosts(
    project: Project, name: str, scraper: Scraper, settings: Mapping[str, Any], more: Sequence[str] = ()
) -> Mapping[str, Any]:
    """Return settings that also allow the private hosts of declared seeds, and of `more`."""
    hosts = declared_private_hosts(project, name, scraper, more)
    if not hosts:
        return settings
    given = settings.get("allow_private", scraper.settings.allow_private) or ()
    before = [given] if isinstance(given, str) else given
    return {**settings, "allow_private": list(dict.fromkeys([*before, *hosts]))}


def job_of_run(project: Project, queue_url: str, run: Run) -> Job:
    """Return the job of a run's scraper; raises UnknownScraper if the project does not have it."""
    for entry in sorted(project.scrapers.values(), key=lambda one: one.name != run.scraper):
        with suppress(ShoalError):
            if (job := project_job(project, queue_url, entry.name)).scraper.name == run.scraper:
                return job
    raise UnknownScraper(run.scraper, list(project.scrapers))
