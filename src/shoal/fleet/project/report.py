"""The rows of `shoal config`: every value, and where it comes from."""

from typing import Any

from shoal.core.redact import redacted
from shoal.fleet.project.config import VARIABLES, WITHOUT_OPTION, Config
from shoal.fleet.project.file import LoadedScraper
from shoal.fleet.project.shown import shown_setting
from shoal.queue.address import shown_queue
from shoal.scrape.settings.scraper import SETTINGS, same_names

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
