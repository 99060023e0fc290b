"""The options that name sources: one definition for every command."""

import inspect

import typer

from shoal.cli import sources
from shoal.cli.commands import app_for
from shoal.fleet import named


def options_of(command):
    return {
        name for param in typer.main.get_command(app_for()).commands[command].params for name in param.opts
    }


def test_every_source_has_one_option_and_both_commands_take_all():
    assert set(inspect.signature(sources._sources).parameters) == set(named._READERS)
    flags = {f"--{name.replace('_', '-')}" for name in named._READERS}
    assert flags <= options_of("run") and flags <= options_of("enqueue")


def test_a_command_is_handed_its_sources_read_and_its_own_options_as_they_are():
    taken = {}

    @sources.takes_sources
    def command(scraper: str, seeds: object, rejects: str | None = None) -> None:
        """Do nothing."""
        taken.update(scraper=scraper, seeds=seeds, rejects=rejects)

    command(scraper="books", rejects="bad.jsonl", url=["https://a.test/"], partition="CA")
    assert (taken["scraper"], taken["rejects"]) == ("books", "bad.jsonl")
    assert (taken["seeds"].urls, taken["seeds"].labels.partition) == (("https://a.test/",), "CA")
