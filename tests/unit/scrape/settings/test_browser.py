"""The setting `browser`, as users write it."""

import pytest

from shoal.core.browser_settings import BLOCKABLE, BrowserSettings
from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.sessions import read_browser


def read(value):
    return read_browser("browser", value)


def test_what_is_not_said_is_as_by_default():
    assert read(None) == read({}) == read("") == BrowserSettings()
    assert BrowserSettings().selector is None
    assert BrowserSettings().block == frozenset(BLOCKABLE)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        (".row", {"wait": ".row"}),
        ("table > tr[data-id=x] td", {"wait": "table > tr[data-id=x] td"}),
        ("idle context=session", {"wait": "idle", "context": "session"}),
        ("wait=.a .b max_pages=50 tabs=2", {"wait": ".a .b", "max_pages": 50, "tabs": 2}),
        ("block=images,fonts memory=512MB", {"block": ["images", "fonts"], "memory": 512 << 20}),
        ("block=none", {"block": []}),
    ],
)
def test_text_and_names_say_the_same(text, named):
    assert read(text) == read(named)


def test_a_selector_is_what_is_no_other_word():
    assert [read(text).selector for text in ("load", "dom", "idle", "main h1")] == [
        None,
        None,
        None,
        "main h1",
    ]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ({"wiat": "load"}, "browser has no 'wiat'. Did you mean 'wait'?"),
        ({"context": "tab"}, "browser.context must be 'task' or 'session'"),
        ({"max_pages": 0}, "browser.max_pages must be a whole number from 1"),
        ({"block": "adverts"}, "browser.block must be 'images' or"),
        ({"block": 5}, "browser.block takes some of images"),
        ({"memory": "1 MB"}, "browser.memory must be at least 128 MB"),
        ({"wait": ""}, "browser.wait must be load, dom, idle or a CSS selector"),
        ({"executable": "/nowhere/chrome"}, "browser.executable finds no program at /nowhere/chrome"),
        (5, "browser takes {'wait': '.row'"),
    ],
)
def test_what_is_wrong_is_named(value, says):
    with pytest.raises(InvalidSetting) as caught:
        read(value)
    assert says in str(caught.value)
