"""The seed options: one definition for every command."""

import inspect

import typer

from shoal.cli.options import sources
from shoal.cli.registry import app_for
from shoal.fleet.sources import names


def options_of(command):
    return {
        name for param in typer.main.get_command(app_for()).commands[command].params for name in param.opts
    }


def test_every_seed_option_is_taken_by_both_commands():
    assert set(inspect.signature(sources._sources).parameters) == set(names._READERS)
    flags = {f"--{name.replace('_', '-')}" for name in names._READERS}
    assert flags <= options_of("run") and flags <= options_of("enqueue")


def test_a_command_gets_its_seeds_parsed_and_its_own_options_unchanged():
    taken = {}

    @sources.takes_sources
    def command(scraper: str, seeds: object, rejects: str | None = None) -> None:
        """Do nothing."""
        taken.update(scraper=scraper, seeds=seeds, rejects=rejects)

    command(scraper="books", rejects="bad.jsonl", url=["https://a.test/"], partition="CA")
    assert (taken["scraper"], taken["rejects"]) == ("books", "bad.jsonl")
    assert (taken["seeds"].urls, taken["seeds"].labels.partition) == (("https://a.test/",), "CA")
