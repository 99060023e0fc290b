"""Writes the table of settings in the reference from their declarations: python -m tools.settings_table."""

from collections.abc import Mapping
from pathlib import Path

from shoal.fleet.project.report import shown_setting
from shoal.scrape.scope import Scope
from shoal.scrape.settings.expect import Expectations
from shoal.scrape.settings.retry import RetrySettings
from shoal.scrape.settings.scraper import SETTINGS, ScraperSettings
from shoal.scrape.settings.sites import SiteTable

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "scraper.md"
HEAD = "| setting | default | may change | API | |\n|---|---|---|---|---|\n"


def settings_table() -> str:
    """Return the table as Markdown."""
    rows = (
        (f"`{name}`", f"`{_default(name)}`", _change(name), "yes" if declared.web else "", declared.help)
        for name, declared in SETTINGS.items()
    )
    return HEAD + "".join(f"| {' | '.join(cells)} |\n" for cells in rows)


def _default(name: str) -> str:
    settings = ScraperSettings()
    match getattr(settings, SETTINGS[name].field):
        case Mapping() | SiteTable():
            return "{}"
        case tuple() | frozenset():
            return "()"
        case RetrySettings() | settings.browser:
            return "None"
        case str() | Scope() | Expectations():
            return f'"{shown_setting(settings, name)}"'
        case _:
            return str(shown_setting(settings, name))


def _change(name: str) -> str:
    declared = SETTINGS[name]
    return "now" if declared.live else "never" if declared.fixed else "when resumed"


def with_table(page: str) -> str:
    """Return the page with the table as it is declared."""
    begin = page.index("| setting | default |")
    end = page.index("\n\n", begin) + 1
    return page[:begin] + settings_table() + page[end:]


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text()))
