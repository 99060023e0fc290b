"""What docs/how-to/browser.md says is so."""

import re
from dataclasses import fields
from pathlib import Path

from shoal.core.browser_settings import BrowserSettings
from shoal.core.http import LiveTab
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
