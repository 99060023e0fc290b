"""The project file: `shoal.toml` (or YAML), which names the queue, the workers and the scrapers of a folder.

Everything in it is read and checked here. What is stronger wins: an option on the command line, then the
environment, then `.env`, then the file.
"""

import os
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from dotenv import dotenv_values

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.discover.routing import Routes
from shoal.scrape.load import load_scraper
from shoal.scrape.scraper import Scraper
from shoal.scrape.values import read_whole

FILES = ("shoal.toml", "shoal.yaml", "shoal.yml")
# Read by the command line's options, so that each value has one name wherever it is given.
VARIABLES = {"queue": "SHOAL_QUEUE", "workers.count": "SHOAL_WORKERS", "workers.at_once": "SHOAL_AT_ONCE"}


@dataclass(frozen=True, slots=True)
class Entry:
    """A scraper as the project names it."""

    name: str
    module: str  # FILE[:NAME] or package.module:NAME, relative to the project's folder
    overrides: Mapping[str, Any] = field(default_factory=dict)
    where: str = "shoal.toml"

    def load(self, folder: Path) -> Scraper:
        """Load the scraper with the project's settings; an error names the file and the key."""
        scraper = load_scraper(self.reference(folder))
        try:
            return scraper.replace(**self.overrides)
        except InvalidSetting as error:
            raise InvalidSetting(f"{self.where}: scrapers.{self.name}.{error.key}", error.reason) from error

    def reference(self, folder: Path) -> str:
        """Return where a worker on this machine finds the scraper."""
        return str(folder / self.module) if ".py" in self.module else self.module


@dataclass(frozen=True, slots=True)
class Project:
    """What a project file says; without one it says nothing."""

    folder: Path
    file: Path | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    scrapers: Mapping[str, Entry] = field(default_factory=dict)
    routes: Routes = field(default_factory=Routes)

    @classmethod
    def find(cls, start: Path) -> "Project":
        """Read the project file of this folder or the nearest one above it."""
        for folder in (start, *start.parents):
            for name in FILES:
                if (folder / name).is_file():
                    return read(folder / name)
        return cls(start)

    def set_environment(self) -> None:
        """Let the commands find what the project says where they look for it; what is set already stays."""
        for name, value in (dict(self.variables) | _dotenv(self.folder)).items():
            os.environ.setdefault(name, value)

    def entry(self, name: str) -> Entry | None:
        """Return the scraper of this name, None for a file or module; raises InvalidInput for neither."""
        if name in self.scrapers:
            return self.scrapers[name]
        place = name.partition(":")[0]
        if place.endswith(".py") or "/" in place or "." in place or not self.scrapers:
            return None
        close = get_close_matches(name, self.scrapers, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"It has {', '.join(self.scrapers)}."
        raise InvalidInput(f"{self.file and self.file.name} names no scraper {name!r}. {hint}")


def read(file: Path) -> Project:
    """Read a project file; every error names the file and the key."""
    data = _parsed(file)
    _only(file, "", data, ("queue", "workers", "scrapers", "routes"))
    workers = _table(file, "workers", data)
    _only(file, "workers.", workers, ("count", "at_once"))
    variables = {}
    if "queue" in data:
        variables[VARIABLES["queue"]] = _text(file, "queue", data["queue"])
    for key, value in workers.items():
        number = read_whole(f"{file.name}: workers.{key}", value, least=1)
        variables[VARIABLES[f"workers.{key}"]] = str(number)
    entries = {name: _entry(file, name, given) for name, given in _table(file, "scrapers", data).items()}
    return Project(file.parent, file, variables, entries, _routes(file, data.get("routes", [])))


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
    overrides = {setting: value for setting, value in given.items() if setting != "module"}
    return Entry(name, _text(file, f"{key}.module", given["module"]), overrides, file.name)


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


def _table(file: Path, key: str, data: Mapping[str, Any]) -> dict[str, Any]:
    found = data.get(key, {})
    if not isinstance(found, dict):
        raise InvalidSetting(f"{file.name}: {key}", f"must be a table, got {found!r}")
    return found


def _text(file: Path, key: str, value: Any) -> str:
    if not isinstance(value, str) or not value:
        raise InvalidSetting(f"{file.name}: {key}", f"must be text, got {value!r}")
    return value


def _only(file: Path, prefix: str, data: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for key in data:
        if key not in known:
            close = get_close_matches(key, known, n=1)
            hint = f"Did you mean {close[0]!r}?" if close else f"Known are {', '.join(known)}."
            raise InvalidSetting(f"{file.name}: {prefix}{key}", f"is not known. {hint}")


def _dotenv(folder: Path) -> dict[str, str]:
    found = dotenv_values(folder / ".env", interpolate=False)
    return {name: value for name, value in found.items() if value is not None and name.startswith("SHOAL_")}
