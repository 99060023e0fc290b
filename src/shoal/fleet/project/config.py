"""The configuration of a program: what the environment, `.env` and the project file set, and where.

It is read once, and the first of these three wins. An option that was typed wins over all of them, and each
of them over the scraper.
"""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from shoal.fleet.command_hints import DEFAULT_QUEUE
from shoal.fleet.project.file import KEYS, WORKERS, Project, read_dotenv
from shoal.scrape.settings.scraper import SETTINGS

DEFAULT_MEMORY = "256 MB"
DEFAULT_HEARTBEAT = "5s"


class Variable(NamedTuple):
    """A value of the configuration, under all its names."""

    name: str
    option: str
    default: str = ""


VARIABLES = (
    Variable("SHOAL_QUEUE", "--queue", DEFAULT_QUEUE),
    Variable("SHOAL_WORKERS", "--workers"),
    Variable("SHOAL_CONCURRENCY", "--concurrency", "64"),
    Variable("SHOAL_MEMORY", "--memory", DEFAULT_MEMORY),
    Variable("SHOAL_HEARTBEAT", "--heartbeat", DEFAULT_HEARTBEAT),
    Variable("SHOAL_METRICS", "--metrics"),
    Variable("SHOAL_LOG_DIR", "--log-dir"),
    Variable("SHOAL_LOG_FORMAT", "--log-format", "human"),
    Variable("SHOAL_LOG_LEVEL", "--log-level", "info"),
    *(
        Variable(one.option.variable, f"--{name.replace('_', '-')}")
        for name, one in SETTINGS.items()
        if one.option and one.option.variable
    ),
    Variable("SHOAL_LISTEN", "--at"),
    Variable("SHOAL_WEB_HOST", "--host", "127.0.0.1"),
    Variable("SHOAL_WEB_PORT", "--port", "8700"),
    Variable("SHOAL_WEB_TOKEN_FILE", "--token-file"),
    Variable("SHOAL_WEB_ALLOW_HOST", "--allow-host"),
    Variable("SHOAL_WEB_MAX_WORKERS", "--max-workers", "8"),
)
WITHOUT_OPTION = ("SHOAL_PATIENCE", "SHOAL_WEB_TOKEN", "SHOAL_WEB_READER_TOKEN")
OPTIONS = {variable.option: variable.name for variable in VARIABLES}
_READ = frozenset((*OPTIONS.values(), *WITHOUT_OPTION))


class ConfigValue(NamedTuple):
    """A text and where it was set: `SHOAL_QUEUE`, `.env: SHOAL_QUEUE`, `shoal.toml: workers.count`."""

    text: str
    source: str


@dataclass(frozen=True, slots=True)
class Config:
    """The project, and the values that replace the defaults of options, by their variables."""

    project: Project
    values: Mapping[str, ConfigValue]

    @classmethod
    def read(cls, folder: Path, environment: Mapping[str, str]) -> "Config":
        """Read the project of a folder, its `.env` and the environment; raises InvalidInput."""
        project = Project.find(folder)
        count = {} if project.cluster.workers.per_machine else {WORKERS: "workers.count"}
        keys = KEYS | count
        values = {
            name: ConfigValue(text, project.source_of(keys[name])) for name, text in project.variables.items()
        }
        for name, text in read_dotenv(project.folder).items():
            values[name] = ConfigValue(text, f".env: {name}")
        for name in _READ:
            # An empty variable is one that is not set, as for the options.
            if text := environment.get(name, ""):
                values[name] = ConfigValue(text, name)
        return cls(project, values)

    @property
    def queue(self) -> str:
        """The queue's address."""
        return self.text("SHOAL_QUEUE") or DEFAULT_QUEUE

    def text(self, name: str) -> str | None:
        """Return the value of a variable, None if nothing sets it."""
        return self.values[name].text if name in self.values else None

    def source_of_option(self, option: str) -> str | None:
        """Return where the value of an option that was not typed comes from; None for its default."""
        name = OPTIONS.get(option, "")
        return self.values[name].source if name in self.values else None

    def export_others(self, environment: MutableMapping[str, str]) -> None:
        """Export what `.env` sets and no option reads: secrets that workers read by their names."""
        for name, value in self.values.items():
            if name not in _READ:
                environment.setdefault(name, value.text)
