"""What a project is made of when it is deployed: its image, services, secrets, and the kind of its queue."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.urls import is_object_url
from shoal.core.values import hint
from shoal.fleet.project.deploy import TASKS_PER_WORKER, ServiceSettings
from shoal.fleet.project.file import Project
from shoal.scrape.scraper import Scraper

PROJECT = "/project"  # where images have it
QUEUES = {"postgresql": "postgres", "postgres": "postgres", "redis": "redis", "rediss": "redis"}
BROWSERS = ("browser", "auto")


@dataclass(frozen=True, slots=True)
class ReplicaRange:
    """How many containers of a service an autoscaler may start, and for how many tasks it starts one."""

    least: int
    most: int
    tasks_per_worker: int


@dataclass(frozen=True, slots=True)
class Service:
    """Workers of one kind: their command, and how many containers of them there are."""

    name: str
    command: tuple[str, ...]
    replicas: int
    about: str
    scaling: ReplicaRange | None = None  # None: as many as `replicas`


@dataclass(frozen=True, slots=True)
class Deployment:
    """A project as the files of a deployment describe it."""

    name: str  # a DNS label
    image: str
    queue: str  # postgres, redis or rabbitmq
    namespace: str  # of the queue, empty for the default
    services: tuple[Service, ...]
    secrets: tuple[str, ...]  # names of variables
    results: str | None  # the folder of results inside a container; None if they go to a database
    has_browser: bool
    files: tuple[str, ...] = ()  # the folders of downloads inside a container
    buckets: tuple[str, ...] = ()  # where downloads go to object storage
    architecture: str = "amd64"

    @classmethod
    def of(cls, project: Project, queue: str | None) -> "Deployment":
        """Read the deployment of a project; raises InvalidInput or InvalidSetting if something is missing."""
        if project.file is None or not project.scrapers:
            raise InvalidInput(
                f"No shoal.toml with scrapers in {project.folder} or a parent folder. Run: shoal new shop"
            )
        scrapers = {name: entry.load(project.folder) for name, entry in project.scrapers.items()}
        places = [one.settings.files for one in scrapers.values() if one.settings.files]
        name = re.sub(r"[^a-z0-9]+", "-", project.folder.name.lower()).strip("-")[:40].rstrip("-") or "shoal"
        return cls(
            name=name if name[0].isalpha() else f"shoal-{name}",
            image=project.deploy.image or f"{name}:1",
            queue=_kind(queue),
            namespace=_namespace(queue),
            services=tuple(_services(project, scrapers)),
            secrets=tuple(one for one in project.deploy.secrets if one != "SHOAL_QUEUE"),
            results=_results_folder(project.cluster.storage.results),
            has_browser=any(_uses_browser(one) for one in scrapers.values()),
            files=tuple(dict.fromkeys(_in_container(one) for one in places if not is_object_url(one))),
            buckets=tuple(dict.fromkeys(one for one in places if is_object_url(one))),
            architecture=project.deploy.architecture,
        )


def _in_container(folder: str) -> str:
    return str(PurePosixPath(PROJECT, folder))


def _kind(queue: str | None) -> str:
    # Containers cannot share a file of SQLite.
    scheme = (queue or "").partition("://")[0]
    return "rabbitmq" if scheme.startswith("amqp") else QUEUES.get(scheme, "postgres")


def _namespace(queue: str | None) -> str:
    found = re.search(r"[?&]namespace=([A-Za-z0-9_-]+)", queue or "")
    return found[1] if found else ""


def _services(project: Project, scrapers: dict[str, "Scraper"]) -> Iterator[Service]:
    plan = project.cluster.workers
    own = ServiceSettings(scrapers=plan.scrapers, steps=plan.steps or ())
    declared = project.deploy.services or {"worker": own}
    for name, service in declared.items():
        _check_names(project, f"deploy.services.{name}", service, scrapers)
        chosen = [*service.scrapers] if service.scrapers else []
        command = ["shoal", "start", "--role", "worker", *chosen]
        if service.steps:
            command += ["--steps", ",".join(service.steps)]
        if service.workers:
            command += ["--workers", str(service.workers)]
        served = f"the steps {', '.join(service.steps)}" if service.steps else "all steps"
        about = f"Workers for {served} of {', '.join(chosen or scrapers)}"
        yield Service(name, tuple(command), service.replicas, about, _scaling(service))
    if project.deploy.services:
        _check_complete(project, scrapers)


def _scaling(service: ServiceSettings) -> ReplicaRange | None:
    if service.max_replicas is None:
        return None
    tasks = service.tasks_per_worker or TASKS_PER_WORKER
    # A container with several processes takes as many times the tasks.
    return ReplicaRange(service.min_replicas or 0, service.max_replicas, tasks * (service.workers or 1))


def _check_names(
    project: Project, key: str, service: ServiceSettings, scrapers: dict[str, "Scraper"]
) -> None:
    for name in service.scrapers:
        if name not in scrapers:
            raise _wrong(project, f"{key}.scrapers", f"{name!r} is no scraper. {hint(name, scrapers)}")
    steps = [step for name in service.scrapers or scrapers for step in scrapers[name].steps]
    for step in service.steps:
        if step not in steps:
            raise _wrong(project, f"{key}.steps", f"{step!r} is no step. {hint(step, steps)}")


def _check_complete(project: Project, scrapers: dict[str, "Scraper"]) -> None:
    """Refuse services that leave a step without workers: a run would wait for ever."""
    for name, scraper in scrapers.items():
        for step in scraper.steps:
            if not any(
                (not one.scrapers or name in one.scrapers) and (not one.steps or step in one.steps)
                for one in project.deploy.services.values()
            ):
                raise _wrong(project, "deploy.services", f"leave out the step {step!r} of {name!r}")


def _wrong(project: Project, key: str, reason: str) -> InvalidSetting:
    return InvalidSetting(f"{project.file.name if project.file else 'shoal.toml'}: {key}", reason)


def _results_folder(pattern: str | None) -> str | None:
    if pattern is None or "://" in pattern:
        return None
    return str(PurePosixPath(PROJECT, pattern).parent)


def _uses_browser(scraper: "Scraper") -> bool:
    chosen = [scraper.settings.fetch, *scraper.fetchers]
    return any(one in BROWSERS for one in chosen)
