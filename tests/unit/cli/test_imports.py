"""A command starts without what it does not use."""

import subprocess
import sys

import pytest

# What a command opens only if an option or a setting names it, or in a terminal.
OPTIONAL = (
    *("rich", "pyarrow", "warcio", "asyncpg", "shoal.export.tables.postgres", "shoal.export.archive"),
    *("shoal.fetch.browser", "shoal.fetch.proxies", "shoal.fetch.sessions", "shoal.fetch.tor"),
    *("shoal.fetch.tokens.pool", "shoal.fleet.status.rows.letters", "shoal.web"),
)
FOR_RUNS = (*OPTIONAL, "turbohtml", "wreq", "shoal.scrape.scraper", "shoal.worker.process.main")
FOR_ANY = (
    *FOR_RUNS,
    "asyncio",
    "shoal.cli.main",
    "shoal.cli.commands",
    "shoal.scrape",
    "shoal.fleet.project",
)


@pytest.mark.parametrize(
    ("words", "unused"),
    [
        (["--version"], (*FOR_ANY, "typer", "msgspec", "shoal.cli")),
        (["--help"], FOR_ANY),
        (["status", "--help"], [name for name in FOR_RUNS if name != "rich"]),
        (["run", "--help"], OPTIONAL),
    ],
    ids=" ".join,
)
def test_a_command_imports_nothing_that_it_does_not_use(words, unused):
    command = [sys.executable, "-X", "importtime", "-m", "shoal", *words]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    imported = [line.rpartition("|")[2].strip() for line in found.splitlines()]
    assert [
        name for name in imported if name in unused or name.startswith(tuple(f"{one}." for one in unused))
    ] == []
