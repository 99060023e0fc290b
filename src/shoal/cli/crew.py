"""The options that say who works on a run and how, defined once for every command that starts workers."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from shoal.cli import options
from shoal.cli.groups import Command, group

if TYPE_CHECKING:
    from shoal.fleet.launch import Job

WORKERS = (
    "workers",
    "span",
    "at_once",
    "slow_requests",
    "memory",
    "steps",
    "partitions",
    "partition_table",
    "heartbeat",
)
MANNERS = ("proxies", "tor", "fetch", "tokens")  # options that are settings of the scraper by the same name
WATCHING: dict[str, Any] = {
    "log_dir": None,
    "log_format": "human",
    "log_level": "info",
    "metrics": None,
    "trace": False,
}


def _crew(
    workers: options.Workers = None,
    span: options.Span = None,
    at_once: options.AtOnce = None,
    slow_requests: options.SlowRequests = None,
    memory: options.Memory = options.DEFAULT_MEMORY,
    steps: options.Steps = None,
    partitions: options.Partitions = None,
    partition_table: options.PartitionTable = None,
    heartbeat: options.Heartbeat = options.DEFAULT_HEARTBEAT,
    proxies: options.Proxies = None,
    tor: options.Tor = None,
    fetch: options.Fetch = None,
    tokens: options.Tokens = None,
    allow_private: options.AllowPrivate = None,
    changes: options.Settings = None,
    log_dir: options.LogDir = None,
    log_format: options.LogFormat = "human",
    log_level: options.LogLevel = "info",
    metrics: options.Metrics = None,
    trace: options.Trace = False,
) -> None:
    """Say who works, and how."""


@dataclass(frozen=True, slots=True)
class CrewOptions:
    """What was typed about the workers; a command may leave some of it out."""

    typed: dict[str, Any]

    @property
    def workers(self) -> int | None:
        """How many, if it was said."""
        found: int | None = self.typed.get("workers")
        return found

    def fields(self, *, has_data: bool = False) -> dict[str, Any]:
        """Return what `read_job` is told of the workers themselves; raises what is wrong or missing.

        With `has_data` the command writes data to stdout, and log lines meant for it go to stderr.
        """
        from shoal.cli.watching import read_watching

        named = ("span", "at_once", "slow_requests", "memory", "partition_table", "heartbeat")
        lists = ("steps", "partitions")
        return {
            **{name: self.typed[name] for name in named if name in self.typed},
            **{name: options.words(self.typed[name]) for name in lists if name in self.typed},
            **read_watching(
                **{name: self.typed.get(name, default) for name, default in WATCHING.items()},
                has_data=has_data,
            ),
        }

    def job(
        self, scraper: str, queue: str, *, changes: Sequence[str] = (), has_data: bool = False, **more: Any
    ) -> "Job":
        """Load the scraper and apply all of it; raises what is wrong with either."""
        from shoal.cli.job import read_job

        manners = (each for name in MANNERS for each in options.setting(name, self.typed.get(name)))
        return read_job(
            scraper,
            queue=queue,
            changes=[*(self.typed.get("changes") or []), *manners, *changes],
            allow_private=self.typed.get("allow_private"),
            **{"workers": self.workers or 1, **self.fields(has_data=has_data), **more},
        )


def takes_crew(*, without: Collection[str] = (), **defaults: Any) -> Callable[[Command], Command]:
    """Give a command the options above in the place of its parameter `crew`: a CrewOptions."""
    return group("crew", _crew, CrewOptions, without=without, **defaults)
