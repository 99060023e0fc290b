"""The examples of docs/how-to/tor.md run, and its settings can be read."""

import re
from pathlib import Path

import pytest

from shoal.core.errors import Blocked
from shoal.scrape.settings.proxies import TorSettings
from shoal.scrape.settings.scraper import ScraperSettings

PAGE = (Path(__file__).parents[4] / "docs" / "how-to" / "tor.md").read_text()


def examples():
    names = {}
    for example in re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL):
        exec(example, names)
    return names


def test_the_examples_are_scrapers_by_tor():
    names = examples()
    assert names["books"].settings.tor == TorSettings()
    assert names["news"].settings.tor == TorSettings(renew=50)


def test_the_step_of_the_example_tells_a_captcha_from_a_product():
    shop = examples()["shop"]
    assert shop.parse("<h1>One</h1>").items == [{"title": "One"}]
    with pytest.raises(Blocked):
        shop.parse("<p id=captcha>")


def test_every_word_of_the_table_can_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bridges.torrc").touch()
    rows = re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE)[1:]
    words = [word for row in rows for word in re.findall(r"`([^`]+)`", row)]
    assert len(words) == 6
    for word in words:
        ScraperSettings.read(tor={"True": True, "None": None}.get(word, word))
