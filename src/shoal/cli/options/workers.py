"""The worker options, defined once for every command that starts workers."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

from shoal.cli.options import common
from shoal.cli.options.groups import Command, group
from shoal.cli.options.job import read_job
from shoal.cli.options.telemetry import read_telemetry
from shoal.fleet.build_job import check_served
from shoal.fleet.job import Job
from shoal.queue.open import load_backend
from shoal.worker.process.forkserver import ForkServer

WORKERS = (
    "workers",
    "span",
    "concurrency",
    "memory",
    "steps",
    "partitions",
    "partition_table",
    "heartbeat",
)
FETCH_SETTINGS = ("proxies", "tor", "fetch", "engine", "tokens")  # options with the names of scraper settings
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
    proxies: common.Proxies = None,
    tor: common.Tor = None,
    fetch: common.Fetch = None,
    engine: common.Engine = None,
    tokens: common.Tokens = None,
    allow_private: common.AllowPrivate = None,
    changes: common.Settings = None,
    log_dir: common.LogDir = None,
    log_format: common.LogFormat = "human",
    log_level: common.LogLevel = "info",
    metrics: common.Metrics = None,
    trace: common.Trace = False,
) -> None:
    """Declare the options; the signature is all that matters."""


@dataclass(frozen=True, slots=True)
class WorkerOptions:
    """The worker options as typed; a command may leave some of them out."""

    typed: dict[str, Any]

    @property
    def workers(self) -> int | None:
        """The number of workers, None if not typed."""
        found: int | None = self.typed.get("workers")
        return found

    def fields(self, *, has_data: bool = False) -> dict[str, Any]:
        """Return the arguments of `read_job` for the workers; raises for a wrong or missing option.

        With `has_data` the command writes data to stdout, so log lines meant for stdout go to stderr.
        """

        named = ("span", "concurrency", "memory", "partition_table", "heartbeat")
        lists = ("steps", "partitions")
        return {
            **{name: self.typed[name] for name in named if name in self.typed},
            **{name: common.words(self.typed[name]) for name in lists if name in self.typed},
            **read_telemetry(
                **{name: self.typed.get(name, default) for name, default in TELEMETRY.items()},
                has_data=has_data,
            ),
        }

    def job(
        self, scraper: str, queue: str, *, changes: Sequence[str] = (), has_data: bool = False, **more: Any
    ) -> "Job":
        """Load the scraper and apply all options; raises an error of either."""

        settings = (each for name in FETCH_SETTINGS for each in common.setting(name, self.typed.get(name)))
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


def takes_worker_options(*, without: Collection[str] = (), **defaults: Any) -> Callable[[Command], Command]:
    """Replace a command's placeholder parameter with these options; the command gets WorkerOptions."""
    return group("worker_options", _worker_options, WorkerOptions, without=without, **defaults)
