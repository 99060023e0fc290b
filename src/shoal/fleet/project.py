"""The project file: `shoal.toml` (or YAML), which names the queue, the workers and the scrapers of a folder.

Everything in it is read and checked here. What is stronger wins: an option on the command line, then the
environment, then `.env`, then the file.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dotenv import dotenv_values

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.model import NOTHING
from shoal.core.values import hint
from shoal.discover.routing import Routes
from shoal.fleet.cluster import NO_CLUSTER, Cluster
from shoal.fleet.logs import log_place
from shoal.fleet.table import read_table
from shoal.fleet.trust import is_trusted

if TYPE_CHECKING:
    from shoal.scrape.scraper import Scraper

FILES = ("shoal.toml", "shoal.yaml", "shoal.yml")
# Read by the command line's options, so that each value has one name wherever it is given.
QUEUE = "SHOAL_QUEUE"
VARIABLES = {
    "count": "SHOAL_WORKERS",
    "at_once": "SHOAL_AT_ONCE",
    "slow_requests": "SHOAL_SLOW_REQUESTS",
    "memory": "SHOAL_MEMORY",
    "heartbeat": "SHOAL_HEARTBEAT",
    "metrics": "SHOAL_METRICS",
}
LOG_VARIABLES = {"folder": "SHOAL_LOG_DIR", "format": "SHOAL_LOG_FORMAT", "level": "SHOAL_LOG_LEVEL"}
PROGRAMS = ("SHOAL_CHROMIUM",)  # programs to start, which only the real environment may name
NO_SETTINGS = ("module", "seeds", "partitions")  # of a scraper's table, all else changes its settings
TABLES = ("queue", "coordinator", "workers", "storage", "logs", "scrapers", "routes")


@dataclass(frozen=True, slots=True)
class Entry:
    """A scraper as the project names it."""

    name: str
    module: str  # FILE[:NAME] or package.module:NAME, relative to the project's folder
    overrides: Mapping[str, Any] = field(default_factory=dict)
    where: str = "shoal.toml"
    seeds: Mapping[str, Any] = field(default_factory=dict)  # what its runs begin with, as it is written
    homes: Mapping[str, int] = field(default_factory=dict)  # which worker has which partition

    def load(self, folder: Path) -> "Scraper":
        """Load the scraper with the project's settings; an error names the file and the key."""
        scraper = _loaded(self.reference(folder))
        try:
            return scraper.replace(**self.overrides)
        except InvalidSetting as error:
            raise InvalidSetting(f"{self.where}: scrapers.{self.name}.{error.key}", error.reason) from error

    def reference(self, folder: Path) -> str:
        """Return where a worker on this machine finds the scraper."""
        return str(folder / self.module) if ".py" in self.module else self.module


class Loaded(NamedTuple):
    """A scraper, where workers of this machine find it, and what the project changes in it."""

    scraper: "Scraper"
    reference: str
    overrides: dict[str, Any]
    homes: Mapping[str, int] = NOTHING


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says; without one it says nothing."""

    folder: Path
    file: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    scrapers: Mapping[str, Entry] = field(default_factory=dict)
    routes: Routes = field(default_factory=Routes)
    cluster: Cluster = NO_CLUSTER

    @classmethod
    def find(cls, start: Path) -> "Project":
        """Read the project file of this folder or the nearest one above it.

        A file that another user could have put there is passed over, with a warning.
        """
        for folder in (start, *start.parents):
            for name in FILES:
                if (folder / name).is_file() and is_trusted(folder / name, start):
                    return read(folder / name)
        return cls(start)

    def set_environment(self) -> None:
        """Let the commands find what the project says where they look for it; what is set already stays."""
        for name, value in (dict(self.variables) | _dotenv(self.folder)).items():
            os.environ.setdefault(name, value)

    @property
    def queue(self) -> str | None:
        """The queue's address, if the project or its `.env` names one."""
        return (dict(self.variables) | _dotenv(self.folder)).get(QUEUE)

    def entry(self, name: str) -> Entry | None:
        """Return the scraper of this name, None for a file or module; raises InvalidInput for neither."""
        if name in self.scrapers:
            return self.scrapers[name]
        place = name.partition(":")[0]
        if place.endswith(".py") or "/" in place or "." in place or not self.scrapers:
            return None
        raise InvalidInput(
            f"{self.file and self.file.name} names no scraper {name!r}. {hint(name, self.scrapers)}"
        )

    def load(self, name: str) -> Loaded:
        """Load a scraper by its name in the project, or by its file or module."""
        entry = self.entry(name)
        if entry is None:
            return Loaded(_loaded(name), name, {})
        place, changes = entry.reference(self.folder), dict(entry.overrides)
        return Loaded(entry.load(self.folder), place, changes, entry.homes)


def _loaded(reference: str) -> "Scraper":
    # Not at the top: most commands read the project for its queue alone, and start a third sooner without.
    from shoal.scrape.load import load_scraper

    return load_scraper(reference)


def read(file: Path) -> Project:
    """Read a project file; every error names the file and the key."""
    data = _parsed(file)
    for key in data:
        if key not in TABLES:
            raise InvalidSetting(f"{file.name}: {key}", f"is not known. {hint(key, TABLES)}")
    cluster = Cluster.read(file.name, data)
    entries = {name: _entry(file, name, given) for name, given in _table(file, "scrapers", data).items()}
    routes = _routes(file, data.get("routes", []))
    return Project(file.parent, file, _variables(file, data, cluster), entries, routes, cluster)


def _variables(file: Path, data: Mapping[str, Any], cluster: Cluster) -> dict[str, str]:
    values = {name: getattr(cluster.workers, key) for key, name in VARIABLES.items()}
    values |= {name: getattr(cluster.logs, key) for key, name in LOG_VARIABLES.items()}
    if cluster.logs.folder and isinstance(log_place(cluster.logs.folder), Path):
        values[LOG_VARIABLES["folder"]] = file.parent / cluster.logs.folder  # wherever it is typed
    found = {name: str(value) for name, value in values.items() if value is not None}
    return found | ({QUEUE: _text(file, "queue", data["queue"])} if "queue" in data else {})


def _routes(file: Path, rules: Any) -> Routes:
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidSetting(f"{file.name}: routes", "must be tables, each under [[routes]]")
    return Routes.read(rules, f"{file.name}: routes")


def _entry(file: Path, name: str, given: Any) -> Entry:
    key = f"scrapers.{name}"
    if isinstance(given, str):
        return Entry(name, given, where=file.name)
    if not isinstance(given, dict) or "module" not in given:
        raise InvalidSetting(f"{file.name}: {key}", 'must have a module: module = "books.py:books"')
    overrides = {setting: value for setting, value in given.items() if setting not in NO_SETTINGS}
    seeds = _table(file, "seeds", given, f"{key}.")
    where = f"{file.name}: {key}.partitions"
    homes = read_table(given["partitions"], where) if "partitions" in given else {}
    return Entry(name, _text(file, f"{key}.module", given["module"]), overrides, file.name, seeds, homes)


def _parsed(file: Path) -> dict[str, Any]:
    try:
        data = _READERS[file.suffix](file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InvalidInput(f"{file.name} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise InvalidInput(f'{file.name} must hold keys and values, such as queue = "sqlite:///shoal.db"')
    return data


def _from_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise InvalidInput("A project in YAML needs its reader. Run: pip install 'shoal[yaml]'") from error
    try:
        return yaml.safe_load(text) or {}
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


_READERS: dict[str, Callable[[str], Any]] = {".toml": tomllib.loads, ".yaml": _from_yaml, ".yml": _from_yaml}


def _table(file: Path, key: str, data: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise InvalidSetting(f"{file.name}: {within}{key}", f"must be a table, got {found!r}")
    return found


def _text(file: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidSetting(f"{file.name}: {key}", f"must be text, got {value!r}")
    return value


def _dotenv(folder: Path) -> dict[str, str]:
    file = folder / ".env"
    if not file.is_file() or not is_trusted(file, Path.cwd()):
        return {}
    found = dotenv_values(file, interpolate=False)
    return {name: value for name, value in found.items() if value is not None and _may_be_set(name)}


def _may_be_set(name: str) -> bool:
    return name.startswith("SHOAL_") and name not in PROGRAMS
