"""What a project needs to run in containers, and the files for Docker Compose, Kubernetes and Amazon ECS."""

import json
import os
import re
from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.notifications import FROM_ENVIRONMENT
from shoal.core.urls import is_object_url
from shoal.core.values import hint
from shoal.core.version import VERSION
from shoal.fleet.project.cluster import TASKS_PER_WORKER, ServiceSettings
from shoal.fleet.project.file import Project
from shoal.fleet.project.scrapers import load_entry
from shoal.scrape.scraper import Scraper

PROJECT = "/project"  # where images have it
QUEUES = {"postgresql": "postgres", "postgres": "postgres", "redis": "redis", "rediss": "redis"}
BROWSERS = ("browser", "auto")
BUILD_FOR = "--platform linux/{} "


@dataclass(frozen=True, slots=True)
class Service:
    """Workers of one kind: their command, and how many containers of them there are."""

    name: str
    command: tuple[str, ...]
    replicas: int
    about: str
    scaled: ServiceSettings | None = None  # None: as many as `replicas`, else as an autoscaler decides


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
    buckets: tuple[str, ...] = ()  # object storage of downloads and results
    architecture: str = "amd64"
    secret_files: tuple[str, ...] = ()  # proxies and tokens that the image would contain
    has_schedules: bool = False

    @classmethod
    def of(cls, project: Project, queue: str | None) -> "Deployment":
        """Read the deployment of a project; raises InvalidInput or InvalidSetting if something is missing."""
        if project.file is None or not project.scrapers:
            raise InvalidInput(
                f"No shoal.toml with scrapers in {project.folder} or a parent folder. Run: shoal new shop"
            )
        scrapers = {name: load_entry(entry, project.folder) for name, entry in project.scrapers.items()}
        places = [one.settings.files for one in scrapers.values() if one.settings.files]
        name = re.sub(r"[^a-z0-9]+", "-", project.folder.name.lower()).strip("-")[:40].rstrip("-") or "shoal"
        return cls(
            name=name if name[0].isalpha() else f"shoal-{name}",
            image=project.deploy.image or f"{name}:1",
            queue=_kind(queue),
            namespace=_namespace(queue),
            services=tuple(_services(project, scrapers)),
            secrets=tuple(dict.fromkeys(one for one in _secrets(project) if one != "SHOAL_QUEUE")),
            results=_results_folder(_results(project)),
            has_browser=any(_uses_browser(one) for one in scrapers.values()),
            files=tuple(
                dict.fromkeys(str(PurePosixPath(PROJECT, one)) for one in places if not is_object_url(one))
            ),
            buckets=tuple(dict.fromkeys(one for one in [*places, *_results(project)] if is_object_url(one))),
            architecture=project.deploy.architecture,
            secret_files=tuple(dict.fromkeys(_secret_files(project.folder, scrapers.values()))),
            has_schedules=bool(project.schedules),
        )


def _secret_files(folder: Path, scrapers: Iterable[Scraper]) -> Iterator[str]:
    """Yield the files in the project's folder that hold tokens, or proxies and their passwords."""
    ignored = folder / ".dockerignore"
    lines = ignored.read_text(encoding="utf-8").splitlines() if ignored.is_file() else []
    for scraper in scrapers:
        settings = scraper.settings
        for source in (settings.proxies, settings.tokens, *settings.sites.proxies.values()):
            file = Path(os.path.relpath(source.file, folder)) if source and source.file else None
            if file and ".." not in file.parts and file.as_posix() not in lines:
                yield file.as_posix()


def _kind(queue: str | None) -> str:
    # Containers cannot share a file of SQLite.
    scheme = (queue or "").partition("://")[0]
    return "rabbitmq" if scheme.startswith("amqp") else QUEUES.get(scheme, "postgres")


def _namespace(queue: str | None) -> str:
    found = re.search(r"[?&]namespace=([A-Za-z0-9_-]+)", queue or "")
    return found[1] if found else ""


def _services(project: Project, scrapers: dict[str, Scraper]) -> Iterator[Service]:
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
        scaled = service if service.max_replicas else None
        yield Service(name, tuple(command), service.replicas, about, scaled)
    if project.deploy.services:
        _check_complete(project, scrapers)


def _check_names(project: Project, key: str, service: ServiceSettings, scrapers: dict[str, Scraper]) -> None:
    for name in service.scrapers:
        if name not in scrapers:
            raise InvalidSetting(
                project.source_of(f"{key}.scrapers"), f"{name!r} is no scraper. {hint(name, scrapers)}"
            )
    steps = [step for name in service.scrapers or scrapers for step in scrapers[name].steps]
    for step in service.steps:
        if step not in steps:
            raise InvalidSetting(
                project.source_of(f"{key}.steps"), f"{step!r} is no step. {hint(step, steps)}"
            )


def _check_complete(project: Project, scrapers: dict[str, Scraper]) -> None:
    """Refuse services that leave a step without workers: a run would wait for ever."""
    for name, scraper in scrapers.items():
        for step in scraper.steps:
            if not any(
                (not one.scrapers or name in one.scrapers) and (not one.steps or step in one.steps)
                for one in project.deploy.services.values()
            ):
                raise InvalidSetting(
                    project.source_of("deploy.services"), f"leave out the step {step!r} of {name!r}"
                )


def _results(project: Project) -> Iterator[str]:
    """Yield where results go, those of schedules too."""
    tables = (table for table in project.schedules.values() if isinstance(table, dict))
    for place in (project.cluster.storage.results, *(table.get("out") for table in tables)):
        if isinstance(place, str):
            yield place


def _results_folder(places: Iterable[str]) -> str | None:
    folders = {str(PurePosixPath(PROJECT, place).parent) for place in places if "://" not in place}
    if len(folders) > 1:
        names = ", ".join(sorted(folders))
        raise InvalidInput(f"Results go to several folders, and a container has one: {names}. Use one folder")
    return folders.pop() if folders else None


def _secrets(project: Project) -> Iterator[str]:
    """Yield the variables that the containers need, those of `[notify]` too."""
    yield from project.deploy.secrets
    for table in project.notify.values():
        for value in table.values() if isinstance(table, dict) else ():
            if isinstance(value, str) and value.startswith(FROM_ENVIRONMENT):
                yield value.removeprefix(FROM_ENVIRONMENT)


def _uses_browser(scraper: Scraper) -> bool:
    return any(one in BROWSERS for one in (scraper.settings.fetch, *scraper.fetchers))


_FIELD = re.compile(r"\{\{(\w+)\}\}")
_LINE = re.compile(r"^( *)\{\{(\w+)\}\}\n", re.MULTILINE)  # a field on a line of its own: any number of lines
# What a worker's queue connects to in Compose, the volumes and the files with passwords of its servers.
SERVERS = {
    "postgres": ("pgbouncer", ("postgres",), ("postgres_password",)),
    "redis": ("redis", ("redis",), ("redis.conf",)),
    "rabbitmq": ("rabbitmq", ("redis", "rabbitmq"), ("redis.conf", "rabbitmq.conf")),
}
ECS_ARCHITECTURES = {"amd64": "X86_64", "arm64": "ARM64"}
ADDRESSES = {
    "postgres": "postgresql://USER:PASSWORD@HOST:5432/DATABASE",
    "redis": "redis://:PASSWORD@HOST:6379/0",
    "rabbitmq": "amqp://USER:PASSWORD@HOST:5672/?state=redis://:PASSWORD@HOST:6379/0",
}


def deployment_files(kind: str, plan: Deployment, context: str) -> dict[str, str]:
    """Return the contents of the files by their names; `context` is the project's folder seen from theirs."""
    return {"compose": _compose, "kubernetes": _kubernetes, "ecs": _ecs}[kind](plan, context)


def write_deployment(
    project: Project, kind: str, plan: Deployment, folder: Path, *, overwrite: bool = False
) -> list[Path]:
    """Write the files into a folder and return their paths; existing ones are refused unless `overwrite`.

    A project without a Dockerfile gets one, which is kept from then on.
    """
    context = Path(os.path.relpath(project.folder, folder)).as_posix()
    found = deployment_files(kind, plan, context)
    there = [name for name in found if (folder / name).exists()]
    if there and not overwrite:
        raise InvalidInput(
            f"{folder} already has {', '.join(there)}. Write elsewhere with --out DIR, or add --overwrite"
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in found.items():
        (folder / name).write_text(text, encoding="utf-8")
        if name.endswith(".sh"):
            (folder / name).chmod(0o755)
    return [*_write_dockerfile(project.folder, plan), *(folder / name for name in found)]


def _write_dockerfile(folder: Path, plan: Deployment) -> list[Path]:
    """Write what `shoal new` writes, so that the image can be built; return the paths of new files."""
    if (folder / "Dockerfile").exists():
        return []
    forms = {"Dockerfile": "browser" if plan.has_browser else "common", ".dockerignore": "common"}
    written = []
    for name, template in forms.items():
        if not (folder / name).exists():
            form = files("shoal").joinpath("templates", "projects", template, name.removeprefix("."))
            text = form.read_text(encoding="utf-8").replace("SHOAL_VERSION", VERSION)
            (folder / name).write_text(text, encoding="utf-8")
            written.append(folder / name)
    return written


def _compose(plan: Deployment, context: str) -> dict[str, str]:
    server, volumes, passwords = SERVERS[plan.queue]
    # Each folder has a volume of its own, which the workers of this machine share.
    downloads = {f"files{number or ''}": folder for number, folder in enumerate(plan.files)}
    servers = [_form(f"compose/{name}.yaml", version=VERSION) for name in volumes]
    own = ["queue_url", *plan.secrets]
    text = _form(
        "compose/compose.yaml",
        name=plan.name,
        image=_text(plan.image),
        context=_text(context),
        platform=_if_foreign(plan, "platform: linux/{}"),
        first=plan.services[0].name,
        environment=f"SHOAL_SECRETS: {' '.join(plan.secrets)}" if plan.secrets else "",
        secrets=_text(own),
        web_secrets=_text([*own, "web_token"]),
        security=_text(["no-new-privileges:true", *(["seccomp=unconfined"] if plan.has_browser else [])]),
        shm="1gb" if plan.has_browser else "512mb",
        files=f"volumes: {_text([':'.join(one) for one in downloads.items()])}" if downloads else "",
        images="\n".join(f"#   {command}" for command in image_commands(plan)),
        server=server,
        services="\n\n".join(_compose_service(one) for one in plan.services),
        schedules=_form("compose/schedules.yaml").rstrip() if plan.has_schedules else "",
        results=f"volumes: [{_text(f'results:{plan.results}')}]" if plan.results else "",
        servers="\n\n".join(one.rstrip() for one in servers),
        volumes="\n".join(
            f"{name}: {{}}" for name in (*volumes, *(["results"] if plan.results else []), *downloads)
        ),
        secret_files="\n".join(
            f"{name}: {{file: secrets/{name}}}" for name in (*own, "web_token", *passwords)
        ),
    )
    script = _form(
        "compose/prepare.sh",
        project=quote(context),
        names=quote(" ".join(plan.secrets)),
        servers=_form(f"compose/{plan.queue}.sh", query=_query(plan)),
    )
    return {"compose.yaml": text, "prepare.sh": script, ".gitignore": _form("compose/gitignore")}


def image_commands(plan: Deployment, *, has_servers: bool = True) -> list[str]:
    """Return the commands that build, in a checkout of Shoal, the images that the project's builds upon."""
    build = f"docker build {_if_foreign(plan, BUILD_FOR)}-f deploy/docker/Dockerfile"
    own = f"--target browser -t shoal:{VERSION}-browser" if plan.has_browser else f"-t shoal:{VERSION}"
    commands = [f"{build} {own} ."]
    if plan.queue == "postgres" and has_servers:
        commands.append(f"{build} --target pgbouncer -t shoal-pgbouncer:{VERSION} .")
    return commands


def _if_foreign(plan: Deployment, form: str) -> str:
    """Return a text about the kind of machine; empty for the usual one."""
    return form.format(plan.architecture) if plan.architecture != "amd64" else ""


def _compose_service(service: Service) -> str:
    return _form(
        "compose/service.yaml",
        name=service.name,
        about=service.about,
        command=_text(service.command),
        replicas=str(service.replicas),
    ).rstrip()


def _kubernetes(plan: Deployment, context: str) -> dict[str, str]:
    reference = "{{name: {0}, valueFrom: {{secretKeyRef: {{name: {1}, key: {0}}}}}}}"
    env = {name: "- " + reference.format(name, plan.name) for name in ("SHOAL_QUEUE", *plan.secrets)}
    mount = f"- {{name: results, mountPath: {_text(plan.results)}}}" if plan.results else ""
    claim = "- {name: results, persistentVolumeClaim: {claimName: results}}" if plan.results else ""
    fields = {
        "name": plan.name,
        "image": _text(plan.image),
        "plain_image": plan.image,
        "context": quote(context),
        "registry": "" if "/" in plan.image else f'# First: [deploy] image = "REGISTRY/{plan.image}"',
        "queue": _text(ADDRESSES[plan.queue] + _query(plan)),
        "queue_env": env["SHOAL_QUEUE"],
        "env": "\n".join(env.values()),
        "secrets": "\n".join(f"{name}: VALUE" for name in plan.secrets),
        "results_mount": mount,
        "results_volume": claim,
        # Chromium's own sandbox needs user namespaces, which the default profile forbids.
        "seccomp": "Unconfined" if plan.has_browser else "RuntimeDefault",
        "pod_security": "privileged" if plan.has_browser else "restricted",
        "build_options": _if_foreign(plan, BUILD_FOR),
        "node_selector": _if_foreign(plan, "nodeSelector: {{kubernetes.io/arch: {}}}"),
    }
    scaled = {one.name: one.scaled for one in plan.services if one.scaled}
    common = ["namespace", "migrate", "workers", "web"]
    common += [*(["results"] if plan.results else []), *(["metrics"] if scaled else [])]
    common += ["schedules"] if plan.has_schedules else []
    fields["metrics_port"] = "- {protocol: TCP, port: 9465}" if scaled else ""
    workers = {
        f"worker-{one.name}.yaml": _form(
            "kubernetes/worker.yaml",
            **fields,
            service=one.name,
            about=one.about,
            command=_text(one.command),
            # KEDA's to say; applying the file again must not change it.
            replicas="" if one.scaled else f"replicas: {one.replicas}",
        )
        for one in plan.services
    }
    workers |= {f"scale-{name}.yaml": _scaled_object(plan, name, one) for name, one in scaled.items()}
    names = [*(f"{name}.yaml" for name in common), *workers]
    fields["resources"] = "\n".join(f"- {name}" for name in names)
    others = ("kustomization", *common, "coordinator", "secret.example")
    found = {f"{name}.yaml": _form(f"kubernetes/{name}.yaml", **fields) for name in others}
    return found | workers | {".gitignore": _form("kubernetes/gitignore")}


def _scaled_object(plan: Deployment, name: str, service: ServiceSettings) -> str:
    # A container with several processes takes as many times the tasks.
    tasks = (service.tasks_per_worker or TASKS_PER_WORKER) * (service.workers or 1)
    return _form(
        "kubernetes/scale.yaml",
        name=plan.name,
        service=name,
        least=str(service.min_replicas or 0),
        most=str(service.max_replicas),
        tasks=str(tasks),
    )


def _ecs(plan: Deployment, context: str) -> dict[str, str]:
    form = json.loads(_form("ecs/task-definition.json"))
    others = [Service("coordinator", ("shoal", "start", "--role", "coordinator"), 1, "")]
    if plan.has_schedules:
        others.append(Service("schedules", ("shoal", "schedule", "run", "--workers", "0"), 1, ""))
    return {
        f"{service.name}.json": json.dumps(_task_definition(deepcopy(form), plan, service), indent=2) + "\n"
        for service in (*plan.services, *others)
    }


def _task_definition(task: dict[str, Any], plan: Deployment, service: Service) -> dict[str, Any]:
    task["family"] = f"{plan.name}-{service.name}"
    task["runtimePlatform"]["cpuArchitecture"] = ECS_ARCHITECTURES[plan.architecture]
    (container,) = task["containerDefinitions"]
    registry = "" if "/" in plan.image else "ACCOUNT.dkr.ecr.REGION.amazonaws.com/"
    container["image"] = f"{registry}{plan.image}"
    container["command"] = list(service.command)
    container["secrets"] = [
        {"name": name, "valueFrom": f"arn:aws:secretsmanager:REGION:ACCOUNT:secret:{plan.name}/{name}"}
        for name in ("SHOAL_QUEUE", *plan.secrets)
    ]
    options = container["logConfiguration"]["options"]
    options["awslogs-group"], options["awslogs-stream-prefix"] = f"/{plan.name}", service.name
    if service in plan.services:
        container["environment"].append({"name": "SHOAL_METRICS", "value": "0.0.0.0:9464"})
        container["portMappings"] = [{"name": "metrics", "containerPort": 9464, "protocol": "tcp"}]
    elif plan.results:
        # Lost with the task: mount a volume of EFS there, or let storage.results name a database.
        container["mountPoints"].append(
            {"sourceVolume": "results", "containerPath": plan.results, "readOnly": False}
        )
        task["volumes"].append({"name": "results"})
    return task


def _query(plan: Deployment) -> str:
    """Return the end of the queue's address: its namespace, if it has one."""
    mark = "&" if plan.queue == "rabbitmq" else "?"
    return f"{mark}namespace={plan.namespace}" if plan.namespace else ""


def _text(value: Any) -> str:
    """Return a value as JSON, which YAML reads as it is."""
    return json.dumps(value)


def _form(name: str, /, **fields: str) -> str:
    """Return a form with its fields filled in; a field on a line of its own may have many lines, or none."""
    text = files("shoal").joinpath("templates", "deploy", *name.split("/")).read_text(encoding="utf-8")
    text = _LINE.sub(lambda found: _indent(fields[found[2]], found[1]), text)
    return _FIELD.sub(lambda found: fields[found[1]], text)


def _indent(value: str, by: str) -> str:
    return "".join(f"{by}{line}\n" if line else "\n" for line in value.splitlines())
