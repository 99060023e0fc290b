"""The rows of `shoal config`: every value, and where it comes from."""

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from shoal.core.redact import redacted
from shoal.fleet.project.config import VARIABLES, WITHOUT_OPTION, Config
from shoal.fleet.status.rows import SHOWN_SETTINGS
from shoal.queue.namespace import shown_queue

if TYPE_CHECKING:
    from shoal.fleet.project.file import LoadedScraper

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
    """Return the settings of a scraper, except those that may contain a secret."""
    settings = loaded.scraper.settings
    default = type(settings)()
    rows = []
    for key in SHOWN_SETTINGS:
        value = getattr(settings, key)
        names = (key, "rate") if key == "delay" else (key,)  # the same setting, written in two ways
        written = next((one for one in names if one in loaded.overrides), None)
        if written:
            source = config.project.source_of(f"scrapers.{name}.{written}")
        else:
            source = DEFAULT if value == getattr(default, key) else "scraper"
        rows.append(_row(key, value.total_seconds() if isinstance(value, timedelta) else value, source))
    return rows


def _row(setting: str, value: Any, source: str) -> dict[str, Any]:
    return {"setting": setting, "value": value, "source": source}
