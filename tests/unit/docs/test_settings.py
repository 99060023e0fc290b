"""Every setting is documented, and something reads it: one that does neither is of no use to anybody."""

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import pytest

from shoal.fleet.notify import channels
from shoal.fleet.project import cluster, config, file
from shoal.fleet.schedule import definition
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.worker import left_out
from tests.unit.docs.pages import DOCS, ROOT, rows

SOURCE = ROOT / "src" / "shoal"
SCRAPER, COMMANDS = ((DOCS / "reference" / name).read_text() for name in ("scraper.md", "cli.md"))
SCHEDULES = (DOCS / "how-to" / "schedules.md").read_text()
# Modules that read, check or show settings without an effect.
WITHOUT_EFFECT = ("scrape/settings/", "fleet/project/scrapers.py", "fleet/project/report.py")


class Read(NamedTuple):
    """A place in the code that reads an attribute: `plan.steps` has the owner `plan`."""

    owner: str
    name: str
    path: str


def reads_in(text: str, path: str) -> Iterator[Read]:
    """Yield the attributes that a module reads."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
            match node.value:
                case (
                    ast.Name(id=owner) | ast.Attribute(attr=owner) | ast.Call(func=ast.Attribute(attr=owner))
                ):
                    yield Read(owner.lstrip("_"), node.attr, path)


@pytest.fixture(scope="module")
def reads():
    """Every place in the package that reads an attribute."""
    return [
        read
        for path in SOURCE.rglob("*.py")
        for read in reads_in(path.read_text(), str(path.relative_to(SOURCE)))
    ]


def unread(kind: type, reads: Iterable[Read], owners: Iterable[str]) -> list[str]:
    """Return the fields of a class of settings that nothing reads from something with one of these names."""
    used = {read.name for read in reads if read.owner in owners and not read.path.startswith(WITHOUT_EFFECT)}
    return [field.name for field in fields(kind) if field.name not in used]


def own_reads(kind: type) -> Iterator[Read]:
    """Yield what the methods of a class of settings read of itself, except those that check a change."""
    tree = ast.parse((SOURCE / "scrape/settings/scraper.py").read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == kind.__name__)
    for method in found.body:
        if isinstance(method, ast.FunctionDef) and method.name not in ("read", "replace"):
            yield from (read for read in reads_in(ast.unparse(method), "") if read.owner == "self")


def test_every_setting_of_a_scraper_is_read_by_something(reads):
    owners = ("settings", "self")
    found = [read for read in reads if read.owner == "settings"]
    assert unread(ScraperSettings, [*found, *own_reads(ScraperSettings)], owners) == []


@pytest.mark.parametrize(
    ("kind", "owners"),
    [
        (cluster.CoordinatorSettings, ("coordinator", "plan")),
        (cluster.WorkersSettings, ("workers", "plan")),
        (cluster.StorageSettings, ("storage",)),
        (cluster.LogsSettings, ("logs",)),
        (cluster.DeploySettings, ("deploy",)),
        (cluster.ServiceSettings, ("service",)),
    ],
)
def test_every_key_of_the_project_file_is_read_by_something(reads, kind, owners):
    left = unread(kind, reads, owners)
    has_option = {key.rpartition(".")[2] for key in file.KEYS.values()}
    assert [name for name in left if name not in has_option] == [], "no option has its value either"


def test_every_variable_is_read_by_an_option_or_by_name():
    texts = "".join(
        path.read_text()
        for path in SOURCE.rglob("*.py")
        if path.parent != SOURCE / "fleet" / "project"  # where all are listed
    )
    names = {*(variable.name for variable in config.VARIABLES), *config.WITHOUT_OPTION}
    assert {name for name in names if f'"{name}"' not in texts} == set()
    assert set(file.KEYS) <= names


@dataclass(frozen=True)
class WithUnused(ScraperSettings):
    """Settings with one that nothing reads, and one that is only checked."""

    unused: int = 0
    checked: int = 0


def test_a_setting_that_nothing_reads_is_found(reads):
    checked = Read("settings", "checked", "scrape/settings/scraper.py")
    found = [*(read for read in reads if read.owner == "settings"), *own_reads(ScraperSettings), checked]
    assert unread(WithUnused, found, ("settings", "self")) == ["unused", "checked"]
    assert list(reads_in("settings.unused = 1", "a.py")) == [], "it is set, not read"


def test_the_table_of_options_is_that_of_the_code():
    listed = [
        tuple("" if cell == "-" else cell.strip("`") for cell in (re.sub(r" of `.*`$", "", option), *others))
        for option, *others in rows(COMMANDS, "| option | variable | key of the file | default |")
    ]
    assert listed == [
        (one.option, one.name, file.KEYS.get(one.name, ""), one.default) for one in config.VARIABLES
    ]
    assert all(f"`{name}" in COMMANDS for name in config.WITHOUT_OPTION)


def test_every_key_of_the_project_file_is_in_the_reference():
    tables = {table.name: table.default for table in fields(cluster.ClusterSettings)}
    keys = {f"{name}.{key.name}" for name, table in tables.items() for key in fields(table)}
    keys |= {f"deploy.{key.name}" for key in fields(cluster.DeploySettings)}
    keys |= {key.name for key in fields(cluster.ServiceSettings)}
    keys |= {
        "queue",
        "routes",
        "scrapers.NAME.module",
        "schedules.NAME",
        "notify.NAME",
        *file.NO_SETTINGS[1:],
    }
    table = COMMANDS[COMMANDS.index("| option | variable |") :]
    assert {key for key in keys if f"`{key}`" not in table} == set()
    assert {key.partition(".")[0] for key in keys} >= set(file.TABLES) - {"scrapers"}


def test_every_key_of_schedules_and_channels_is_described():
    described = {
        *re.findall(r"^\| `(\w+)`", SCHEDULES, re.MULTILINE),
        *re.findall(r"^(\w+) =", SCHEDULES, re.MULTILINE),
    }
    described |= set(re.findall(r"`(\w+)[`, ]", SCHEDULES))
    keys = {key.name for kind in (definition.Schedule, channels.ChannelSettings) for key in fields(kind)}
    assert keys - described == set()
    assert set(channels.KINDS) - described == set()


def test_the_reference_says_how_often_counts_are_written():
    assert f"by each worker about every {left_out.COUNTS_INTERVAL.seconds} s" in SCRAPER
    anchor = "scraper.md#how-often-counts-are-written"
    linking = {page.name for page in Path(DOCS).rglob("*.md") if anchor in page.read_text()}
    assert linking == {"cli.md", "files.md", "walkthrough.md"}
