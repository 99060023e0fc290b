"""The page on proxies says what is there, and its examples run."""

import re
from dataclasses import fields
from pathlib import Path

from shoal.core.proxies import STRATEGIES, ProxyRules, read_proxy_list
from shoal.fetch.proxies import fetcher, health, pool
from shoal.scrape.settings.proxies import read_proxies

TEXT = (Path(__file__).parents[3] / "docs" / "how-to" / "proxies.md").read_text()
RULES = re.findall(r"^\| `(\w+)` \| `?([^|`]*)`? \|", TEXT.partition("## Rules")[2], re.MULTILINE)


def test_the_scrapers_of_the_examples_are_made():
    (example,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    names = {"__name__": "example"}
    exec(example, names)
    assert names["news"].settings.proxies.threshold == 5
    assert len(names["books"].settings.proxies.listed) == 2


def test_every_rule_is_listed_with_its_default():
    listed = {
        name: value.strip() for name, value in RULES if name in {field.name for field in fields(ProxyRules)}
    }
    assert listed.keys() == {field.name for field in fields(ProxyRules)} - {"file", "listed", "provider"}
    given = {name: value for name, value in listed.items() if value != "None"}
    assert read_proxies("proxies", {"from": ["p.test:80"], **given}) == ProxyRules(listed=("p.test:80",))


def test_every_strategy_and_fault_is_explained():
    assert all(f"| `{name}` |" in TEXT for name in (*STRATEGIES, *health.ProxyFault))


def test_every_line_that_is_shown_can_be_read():
    table = TEXT.partition("| line | |")[2].partition("\n\n")[0]
    lines = re.findall(r"`([^`]*host:[^`]*)`", table)
    assert len(lines) == 7
    read_proxy_list(lines, what="line")


def test_the_numbers_are_those_of_the_code():
    assert health.MAX_STREAK == 3 and "did not fail three times in a row" in TEXT
    assert pool.MAX_BLOCKS == 3 and "by three hosts for all" in TEXT
    assert pool.SETTLING == 4 and "is not used for four seconds and the gap" in TEXT
    statuses = sorted(fetcher.SUSPECT_STATUSES)
    assert "Its other " + ", ".join(map(str, statuses[:-1])) + f" or {statuses[-1]} is" in TEXT
