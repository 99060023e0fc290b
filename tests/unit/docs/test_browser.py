"""What docs/how-to/browser.md says is so."""

import re
from dataclasses import fields
from datetime import timedelta
from pathlib import Path

from shoal.core import errors
from shoal.core.browser_settings import BrowserSettings
from shoal.core.http import LiveTab
from shoal.fetch.browser import auto, browser, fetcher, live, tab
from shoal.fetch.contract import Limits
from shoal.scrape.settings.sessions import read_browser

PAGE = (Path(__file__).parents[3] / "docs" / "how-to" / "browser.md").read_text()


def test_the_example_runs():
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    scope = {"__name__": "example"}
    exec(example, scope)
    shop = scope["shop"]
    assert (shop.settings.browser.wait, shop.steps["listing"].fetch) == (".product", "browser")
    assert shop.steps["product"].fetch == "http"


def test_every_setting_is_listed_with_its_default():
    listed = dict(re.findall(r"^\| `([a-z_]+)` \|(.*?)\|", PAGE, re.MULTILINE))
    assert listed.keys() == {field.name for field in fields(BrowserSettings)}
    for name, text in listed.items():
        if text.strip(" `") not in ("", "all"):
            assert read_browser("browser", {name: text.strip(" `")}) == BrowserSettings(), name


def test_the_text_for_the_shell_can_be_read():
    (text,) = re.findall(r"--set browser='(.*?)'", PAGE)
    read = read_browser("browser", text)
    assert (read.wait, read.context, read.tabs) == (".product", "session", 8)


def test_every_verb_of_a_live_page_is_listed():
    verbs = {name for name in vars(LiveTab) if not name.startswith("_")} - {"release"}
    assert all(f"{name}(" in PAGE for name in verbs)


def test_the_errors_and_numbers_are_those_of_the_code():
    for name in re.findall(r"^\| `([A-Z]\w+)` \|", PAGE, re.MULTILINE):
        assert issubclass(getattr(errors, name), errors.ShoalError)
    assert (tab.IDLE_TIMEOUT_SECONDS, tab.TRAFFIC, browser.KILL_FACTOR) == (10, 8, 2)
    assert (timedelta(seconds=30), timedelta(seconds=30)) == (fetcher.TAB_RETRY_AFTER, fetcher.RETRY_AFTER)
    assert (auto.HINT_TTL, live.DEFAULT_TIMEOUT, Limits().max_redirects) == (
        timedelta(hours=6),
        timedelta(seconds=10),
        10,
    )
