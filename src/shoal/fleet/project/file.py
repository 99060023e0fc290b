"""The project file: `shoal.toml` (or YAML), which names the queue, the workers and the scrapers."""

import logging
import os
import stat
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.values import hint
from shoal.discover.routing import Routes
from shoal.fleet.partitions.table import read_table
from shoal.fleet.project.cluster import ClusterSettings, DeploySettings, read_fields
from shoal.fleet.telemetry.logs import read_log_target
from shoal.queue.address import ONE_SERVER
from shoal.registry.extras import install_command
from shoal.worker.partitions import PartitionMode

# They choose a program to start, or code that it loads; only the real environment may set them.
PROGRAMS = ("SHOAL_CHROMIUM", "PLAYWRIGHT_BROWSERS_PATH", "PATH", "EDITOR", "VISUAL", "BASH_ENV", "ENV")
LOADERS = ("PYTHON", "LD_", "DYLD_")

log = logging.getLogger(__name__)


def read_dotenv(folder: Path) -> dict[str, str]:
    """Return the variables of the folder's `.env`; a warning names those that it may not set."""
    file = folder / ".env"
    if not file.is_file() or not is_trusted(file, Path.cwd()):
        return {}

    found = dotenv_values(file, interpolate=False)
    refused = [name for name in found if name in PROGRAMS or name.startswith(LOADERS)]
    if refused:
        log.warning("Ignored %s of %s: export what chooses programs to start", ", ".join(refused), file)
    return {name: value for name, value in found.items() if value is not None and name not in refused}


def is_trusted(file: Path, start: Path) -> bool:
    """Return whether a file found from `start` can be trusted; a warning says why not.

    It must belong to this user or to root, and no other user may write to it; if it is a link, the link too.
    In `start` itself it may also belong to the owner of the folder, as in a container that mounts a project
    of the host's user. Elsewhere the same holds for its folder, which has its modules.
    """
    try:
        reason = _why_untrusted(file, start)
    except OSError as error:
        reason = str(error)
    if reason:
        log.warning("Ignored %s: %s", file, reason)
    return reason is None


def _why_untrusted(file: Path, start: Path) -> str | None:
    folder = file.parent.stat()
    owners, found = {0, os.geteuid(), *_sudo_user()}, [(file, file.stat())]
    if file.parent == start:
        owners.add(folder.st_uid)
    else:
        found.append((file.parent, folder))
    for path, status in found:
        if status.st_mode & stat.S_IWOTH:
            return f"every user may write to {path}. Run: chmod o-w {path}"
    for path, status in [(file, file.lstat()), *found]:
        if status.st_uid not in owners:
            return f"{path} belongs to another user (uid {status.st_uid}). Change to its folder or copy it"
    return None


def _sudo_user() -> list[int]:
    """Return the user who called sudo, whose own files are trusted."""
    given = os.environ.get("SUDO_UID", "")
    return [int(given)] if os.geteuid() == 0 and given.isdecimal() else []


FILES = ("shoal.toml", "shoal.yaml", "shoal.yml")
# The keys that are options too, by the variables of these: each value has one name wherever it is set.
QUEUE, WORKERS, LOG_DIR = "SHOAL_QUEUE", "SHOAL_WORKERS", "SHOAL_LOG_DIR"
KEYS = {
    QUEUE: "queue",
    WORKERS: "workers.per_machine",
    "SHOAL_CONCURRENCY": "workers.concurrency",
    "SHOAL_MEMORY": "workers.memory",
    "SHOAL_HEARTBEAT": "workers.heartbeat",
    "SHOAL_METRICS": "workers.metrics",
    LOG_DIR: "logs.folder",
    "SHOAL_LOG_FORMAT": "logs.format",
    "SHOAL_LOG_LEVEL": "logs.level",
}
NO_SETTINGS = ("module", "seeds", "partitions", "args")  # other keys of a scraper's table change its settings
NO_CLUSTER, NO_DEPLOY = ClusterSettings(), DeploySettings()
TABLES = (
    "queue",
    "coordinator",
    "workers",
    "storage",
    "logs",
    "deploy",
    "scrapers",
    "routes",
    "schedules",
    "notify",
)


@dataclass(frozen=True, slots=True)
class ProjectScraper:
    """A scraper of the project file."""

    name: str
    module: str  # FILE[:NAME] or package.module:NAME, relative to the project's folder
    overrides: Mapping[str, Any] = field(default_factory=dict)
    where: str = "shoal.toml"
    seeds: Mapping[str, Any] = field(default_factory=dict)  # the sources of its runs, as written
    homes: Mapping[str, int] = field(default_factory=dict)  # the worker number of each partition
    args: Mapping[str, Any] = field(default_factory=dict)  # the arguments of its runs

    def reference(self, folder: Path) -> str:
        """Return where a worker on this machine loads the scraper from."""
        place = folder / self.module.partition(":")[0]
        return str(folder / self.module) if ".py" in self.module or place.is_dir() else self.module


@dataclass(frozen=True, slots=True)
class Project:
    """The contents of a project file; empty without one."""

    folder: Path
    file: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)  # for options, by the names of variables
    scrapers: Mapping[str, ProjectScraper] = field(default_factory=dict)
    routes: Routes = field(default_factory=Routes)
    cluster: ClusterSettings = NO_CLUSTER
    deploy: DeploySettings = NO_DEPLOY
    schedules: Mapping[str, Any] = field(default_factory=dict)  # as written; `Schedules` reads them
    notify: Mapping[str, Any] = field(default_factory=dict)  # as written; `read_channels` does

    @classmethod
    def find(cls, start: Path) -> "Project":
        """Read the project file of this folder or the nearest one above it.

        A file that another user could have put there is ignored, with a warning.
        """
        for folder in (start, *start.parents):
            there = [folder / name for name in FILES if (folder / name).is_file()]
            if found := [file for file in there if is_trusted(file, start)]:
                for other in found[1:]:
                    log.warning("Ignored %s: %s in the same folder is read instead", other, found[0].name)
                return read(found[0])
        return cls(start)

    def source_of(self, key: str) -> str:
        """Return where the project sets a key: `shoal.toml: workers.count`."""
        return f"{self.file.name if self.file else FILES[0]}: {key}"

    def entry(self, name: str) -> ProjectScraper | None:
        """Return the scraper of this name, None for a file or module; raises InvalidInput otherwise."""
        if name in self.scrapers:
            return self.scrapers[name]
        source = name.partition(":")[0]
        if source.endswith(".py") or "/" in source or "." in source or not self.scrapers:
            return None
        raise InvalidInput(
            f"{self.file and self.file.name} names no scraper {name!r}. {hint(name, self.scrapers)}"
        )

    @property
    def partition_mode(self) -> PartitionMode | None:
        """How workers share all partitions; names are for the machines of a cluster only."""
        named = self.cluster.workers.partitions or ()
        return next((mode for mode in PartitionMode if [*named] == [mode]), None)


def read(file: Path) -> Project:
    """Read a project file; every error names the file and the key."""
    data = _parse(file)
    for key in data:
        if key not in TABLES:
            raise InvalidSetting(f"{file.name}: {key}", f"is not known. {hint(key, TABLES)}")
    cluster = ClusterSettings.read(file.name, data)
    entries = {name: _entry(file, name, given) for name, given in _table(file, "scrapers", data).items()}
    routes = _routes(file, data.get("routes", []))
    deploy = read_fields(DeploySettings, f"{file.name}: deploy", data.get("deploy", {}))
    variables = _variables(file, data, cluster)
    repeated, notify = _table(file, "schedules", data), _table(file, "notify", data)
    return Project(file.parent, file, variables, entries, routes, cluster, deploy, repeated, notify)


def _variables(file: Path, data: Mapping[str, Any], cluster: ClusterSettings) -> dict[str, str]:
    values = {name: attrgetter(key)(cluster) for name, key in KEYS.items() if name != QUEUE}
    values[WORKERS] = values[WORKERS] or cluster.workers.count
    if cluster.logs.folder and isinstance(read_log_target(cluster.logs.folder), Path):
        values[LOG_DIR] = file.parent / cluster.logs.folder  # not the current folder
    values[QUEUE] = _queue(file, data["queue"]) if "queue" in data else None
    return {name: str(value) for name, value in values.items() if value is not None}


def _queue(file: Path, given: Any) -> str:
    """Return the address of the queue; raises InvalidSetting for a list."""
    if isinstance(given, list):
        raise InvalidSetting(f"{file.name}: queue", ONE_SERVER)
    return _text(file, "queue", given)


def _routes(file: Path, rules: Any) -> Routes:
    if not isinstance(rules, list) or not all(isinstance(rule, dict) for rule in rules):
        raise InvalidSetting(f"{file.name}: routes", "must be tables, each under [[routes]]")
    return Routes.read(rules, f"{file.name}: routes")


def _entry(file: Path, name: str, given: Any) -> ProjectScraper:
    key = f"scrapers.{name}"
    if isinstance(given, str):
        return ProjectScraper(name, given, where=file.name)
    if not isinstance(given, dict) or "module" not in given:
        raise InvalidSetting(f"{file.name}: {key}", 'must have a module: module = "books.py:books"')
    overrides = {setting: value for setting, value in given.items() if setting not in NO_SETTINGS}
    seeds = _table(file, "seeds", given, f"{key}.")
    where = f"{file.name}: {key}.partitions"
    homes = read_table(given["partitions"], where) if "partitions" in given else {}
    args = _table(file, "args", given, f"{key}.")
    return ProjectScraper(
        name, _text(file, f"{key}.module", given["module"]), overrides, file.name, seeds, homes, args
    )


def _parse(file: Path) -> dict[str, Any]:
    try:
        data = _READERS[file.suffix](file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise InvalidInput(f"{file.name} cannot be read: {error}") from error
    if not isinstance(data, dict):
        raise InvalidInput(f'{file.name} must contain keys and values, such as queue = "sqlite:///shoal.db"')
    return data


def _from_yaml(text: str) -> Any:
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise InvalidInput(f"YAML project files need a reader. Run: {install_command('yaml')}") from error
    try:
        return yaml.safe_load(text) or {}
    except yaml.MarkedYAMLError as error:
        # Without the line itself, which may hold a password; nor does the cause go into a traceback.
        where = f" in line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ValueError(f"{error.problem or error.context}{where}") from None
    except yaml.YAMLError as error:
        raise ValueError(str(error).splitlines()[0]) from None


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
