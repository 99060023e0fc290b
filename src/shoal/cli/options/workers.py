"""The options of every command that starts workers, and the job that they make."""

import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import msgspec

from shoal.cli.configuration import current_project
from shoal.cli.options import common
from shoal.core.events import read_level
from shoal.core.values import read_choice, read_pair, read_positive_duration, read_size, read_typed
from shoal.fleet.build_job import check_served, make_job
from shoal.fleet.job import Job
from shoal.fleet.partitions.table import read_table_file
from shoal.fleet.project.config import DEFAULT_HEARTBEAT, DEFAULT_MEMORY
from shoal.fleet.project.scrapers import load
from shoal.fleet.sources.declared import declared_private_hosts
from shoal.fleet.sources.names import allowed_private_hosts
from shoal.fleet.telemetry.logs import LogFormat, LogPlan, read_log_target
from shoal.fleet.telemetry.setup import open_telemetry
from shoal.queue.open import load_backend
from shoal.scrape.settings.declaration import FETCHING
from shoal.scrape.settings.scraper import SETTINGS
from shoal.worker.process.forkserver import ForkServer

Command = Callable[..., None]


def group(
    name: str,
    options: Callable[..., None],
    read: Callable[[dict[str, Any]], Any],
    *,
    sections: Collection[str] = (),
    without: Collection[str] = (),
    **defaults: Any,
) -> Callable[[Command], Command]:
    """Replace a command's parameter `name` with these options; the command gets what `read` makes of them.

    `sections` are those of settings that have an option of their own.
    """
    every = [*inspect.signature(options).parameters.values(), *map(_setting_parameter, options_of(sections))]
    members = [
        each.replace(default=defaults.get(each.name, each.default))
        for each in every
        if each.name not in without
    ]

    def decorate(command: Command) -> Command:
        own = inspect.signature(command).parameters.values()

        @wraps(command)
        def expanded(**given: Any) -> None:
            named = {each.name: given.pop(each.name, each.default) for each in members}
            command(**given, **{name: read(named)})

        found = (one for each in own for one in (members if each.name == name else [each]))
        # Keyword-only, so that one with a default may precede one without.
        parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in found]
        # Typer reads both of these, and does not see the wrapped function.
        expanded.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        expanded.__annotations__ = {each.name: each.annotation for each in parameters}
        return expanded

    return decorate


def options_of(sections: Collection[str]) -> list[str]:
    """Return the settings that have an option in one of these sections of `--help`."""
    return [name for name, one in SETTINGS.items() if one.option and one.option.section in sections]


def _setting_parameter(name: str) -> inspect.Parameter:
    kind = Annotated[str | None, common.setting_option(name)]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)


def read_change(text: str) -> tuple[str, Any]:
    """Read NAME=VALUE; the value is JSON or text; None and none are null."""
    key, value = read_pair("--set", text, "rate=5/s")
    return key, read_typed(value)


def read_telemetry(typed: Mapping[str, Any], *, has_data: bool = False) -> dict[str, Any]:
    """Return the fields of a job; raises for a wrong option or a missing library before anything starts.

    With `has_data` the command writes data to stdout, so log lines go to stderr.
    """
    given = TELEMETRY | {name: value for name, value in typed.items() if name in TELEMETRY}
    level = read_level("--log-level", given["log_level"])
    look = LogFormat(read_choice("--log-format", given["log_format"], [str(one) for one in LogFormat]))
    folder = given["log_dir"]
    plan = LogPlan(folder=read_log_target(folder), format=look, level=level) if folder else None
    if plan and has_data:
        plan = plan.off_stdout()
    return open_telemetry(plan, given["metrics"], given["trace"], key="--metrics")


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
        partitions=partitions,
        homes=read_table_file(Path(partition_table)) if partition_table else None,
        heartbeat=read_positive_duration("--heartbeat", heartbeat),
        span=read_positive_duration("--for", span) if span else None,
        **more,
    )


def read_args(texts: Iterable[str]) -> dict[str, Any]:
    """Read NAME=VALUE for each argument; one that is given several times is a list."""
    found: dict[str, list[str]] = {}
    for text in texts:
        name, value = read_pair("-a", text, "category=books")
        found.setdefault(name, []).append(value)
    return {name: values if len(values) > 1 else values[0] for name, values in found.items()}


WORKERS = ("workers", "span", "concurrency", "memory", "steps", "partitions", "partition_table", "heartbeat")
TELEMETRY: dict[str, Any] = {
    "log_dir": None,
    "log_format": "human",
    "log_level": "info",
    "metrics": None,
    "trace": False,
}


def _worker_options(
    workers: common.Workers = None,
    span: common.Span = None,
    concurrency: common.Concurrency = None,
    memory: common.Memory = common.DEFAULT_MEMORY,
    steps: common.Steps = None,
    partitions: common.Partitions = None,
    partition_table: common.PartitionTable = None,
    heartbeat: common.Heartbeat = common.DEFAULT_HEARTBEAT,
    allow_private: common.AllowPrivate = None,
    changes: common.Settings = None,
    log_dir: common.LogDir = None,
    log_format: common.LogFormat = "human",
    log_level: common.LogLevel = "info",
    metrics: common.Metrics = None,
    trace: common.Trace = False,
) -> None:
    """Declare the options; the signature is all that matters."""


class WorkerOptions(msgspec.Struct, frozen=True):
    """The worker options as typed; a command may leave some of them out."""

    typed: dict[str, Any]

    @property
    def workers(self) -> int | None:
        """The number of workers, None if not typed."""
        found: int | None = self.typed.get("workers")
        return found

    @property
    def settings(self) -> dict[str, str]:
        """The settings that were typed as options, by name."""
        return {
            name: value
            for name, value in self.typed.items()
            if value is not None and name in SETTINGS and SETTINGS[name].option
        }

    def fields(self, *, has_data: bool = False) -> dict[str, Any]:
        """Return the arguments of `read_job` for the workers; raises for a wrong or missing option.

        With `has_data` the command writes data to stdout, so log lines meant for stdout go to stderr.
        """
        named = ("span", "concurrency", "memory", "partition_table", "heartbeat")
        lists = ("steps", "partitions")
        return {
            **{name: self.typed[name] for name in named if name in self.typed},
            **{name: common.words(self.typed[name]) for name in lists if name in self.typed},
            **read_telemetry(self.typed, has_data=has_data),
        }

    def job(
        self, scraper: str, queue: str, *, changes: Sequence[str] = (), has_data: bool = False, **more: Any
    ) -> "Job":
        """Load the scraper and apply all options; raises an error of either."""
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        job = read_job(
            scraper,
            queue=queue,
            changes=[*(self.typed.get("changes") or []), *settings, *changes],
            allow_private=self.typed.get("allow_private"),
            **{"workers": self.workers or 1, **self.fields(has_data=has_data), **more},
        )
        check_served(job.steps, job.scraper)
        return job


def fork_server_for(queue: str) -> ForkServer:
    """Fork the fork server of a command: after the imports, and before threads and the user's code.

    Its workers have the driver of this queue imported already.
    """
    load_backend(queue)
    return ForkServer(here=True)


def takes_worker_options(
    *, sections: Collection[str] = (FETCHING,), without: Collection[str] = (), **defaults: Any
) -> Callable[[Command], Command]:
    """Replace a command's placeholder parameter with these options; the command gets WorkerOptions."""
    return group(
        "worker_options", _worker_options, WorkerOptions, sections=sections, without=without, **defaults
    )
