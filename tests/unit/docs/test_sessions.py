"""The pages on tokens and sessions say what is there, and their examples run."""

import re
from pathlib import Path

import pytest

from shoal.fleet.status.rows.fetchers import TokenRow
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.sessions import BROWSERS, SessionSettings

FOLDER = Path(__file__).parents[3] / "docs" / "how-to"
PAGES = {name: (FOLDER / f"{name}.md").read_text() for name in ("tokens", "sessions")}


@pytest.mark.parametrize("name", PAGES)
def test_the_examples_make_scrapers(name):
    (example,) = re.findall(r"```python\n(.*?)```", PAGES[name], re.DOTALL)
    made = {"__name__": "example"}
    exec(example, made)
    scraper = made["github" if name == "tokens" else "shop"]
    assert scraper.settings.tokens or (scraper.settings.sessions and scraper.login_function)


def test_the_texts_that_are_shown_can_be_read():
    for text in re.findall(r'"(env:[^"]*hosts=[^"]*)"', PAGES["tokens"]):
        assert ScraperSettings.read(tokens=text).tokens
    for text in re.findall(r'sessions="([^"]*)"', PAGES["sessions"]):
        assert ScraperSettings.read(sessions=text).sessions


def test_the_defaults_are_those_of_the_code():
    table = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", PAGES["sessions"], re.MULTILINE))
    default = SessionSettings()
    assert table == {"size": str(default.size), "per": f'"{default.per}"', "logins": str(default.logins)}
    assert all(f'"{name}"' in PAGES["sessions"] for name in BROWSERS)


def test_the_columns_that_are_shown_are_those_of_the_command():
    head = next(line for line in PAGES["tokens"].splitlines() if line.startswith("token   "))
    assert re.split(r"\s{2,}", head) == [column.replace("_", " ") for column in TokenRow.columns.names]
