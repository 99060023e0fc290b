"""The rows of `shoal config`: every value as people write it, where it comes from, and no secrets."""

import re
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

from shoal.core.redact import redacted, shown_address
from shoal.core.values import rate_of, spelled
from shoal.fleet.project.config import VARIABLES, WITHOUT_OPTION, Config
from shoal.fleet.project.scrapers import LoadedScraper
from shoal.queue.address import shown_queue
from shoal.scrape.scope import Scope
from shoal.scrape.settings.expect import Expectations
from shoal.scrape.settings.readers import StopWhen
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings, same_names

DEFAULT = "default"


def config_rows(config: Config) -> list[dict[str, Any]]:
    """Return the values that options take when they are not typed; secrets are not shown."""
    rows = []
    for variable in VARIABLES:
        text, source = config.values.get(variable.name, (variable.default, DEFAULT))
        value = shown_queue(text) if variable.option == "--queue" else redacted(text)
        rows.append(_row(variable.option, value or None, source))
    for name in WITHOUT_OPTION:
        if name in config.values:
            text, source = config.values[name]
            rows.append(_row(name, "(set)" if "TOKEN" in name else text, source))
    return rows


def setting_rows(config: Config, name: str, loaded: "LoadedScraper") -> list[dict[str, Any]]:
    """Return all settings of a scraper as people write them; of those with a secret, that they are set."""
    settings = loaded.scraper.settings
    default = type(settings)()
    rows = []
    for key, declared in SETTINGS.items():
        written = next((name for name in same_names(key) if name in loaded.overrides), None)
        if written:
            source = config.project.source_of(f"scrapers.{name}.{written}")
        else:
            is_default = getattr(settings, declared.field) == getattr(default, declared.field)
            source = DEFAULT if is_default else "scraper"
        rows.append(_row(key, shown_setting(settings, key), source))
    return rows


def _row(setting: str, value: Any, source: str) -> dict[str, Any]:
    return {"setting": setting, "value": value, "source": source}


SET = "(set)"
_SIZES = ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB"))
_SIZE_NAMES = ("max_body", "size", "memory")


def shown_setting(settings: "ScraperSettings", key: str) -> Any:
    """Return the value of a setting for a report; what may hold a secret is only said to be set."""
    if key == "rate":
        return rate_of(settings.delay)
    if key == "per_host":
        return settings.requests_per_host
    value = getattr(settings, key)
    if value and SETTINGS[key].hidden:
        return SET
    if key in ("headers", "sites"):
        return ", ".join(value if key == "headers" else value.rules) or None  # the names alone
    return _shown(key, value)


def _shown(key: str, value: Any) -> Any:
    match value:
        case timedelta():
            return spelled(value)
        case Scope():
            return ", ".join(value.patterns) or value.rule
        case re.Pattern():
            return value.pattern
        case Path() | Expectations() | StopWhen():
            return str(value)
        case Mapping():
            return _pairs({str(name): _shown(str(name), one) for name, one in value.items()})
        case tuple() | list() | frozenset():
            ends = [str(_shown(key, one)) for one in value]
            return "-".join(ends) if key == "pause" else ", ".join(sorted(ends)) or None
        case int() if key in _SIZE_NAMES and not isinstance(value, bool):
            return _size(value)
        case str():
            return shown_address(value)
        case _:
            pass
    if is_dataclass(value):
        default = {one.name: one.default for one in fields(value)}
        changed = {
            name: _shown(name, one)
            for name in default
            if (one := getattr(value, name)) is not None and one != default[name]
        }
        return _pairs({name: one for name, one in changed.items() if one is not None}) or "on"
    return value


def _pairs(values: Mapping[str, Any]) -> str | None:
    return " ".join(f"{name}={value}" for name, value in values.items()) or None


def _size(value: int) -> str:
    for unit, name in _SIZES:
        if value and value % unit == 0:
            return f"{value // unit} {name}"
    return f"{value}"
