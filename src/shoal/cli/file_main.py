"""The `shoal` command of one file: `quotes.main()` at its end makes `python quotes.py run` work."""

import sys
from collections.abc import Sequence
from pathlib import Path

from shoal.cli import main as command
from shoal.core.errors import InvalidInput
from shoal.scrape.load import is_loading, locate_scraper
from shoal.scrape.scraper import Scraper
from shoal.worker.process.forkserver import ForkServer

TAKE_SCRAPER = ("run", "enqueue", "work", "fleet", "listen", "scrape", "check", "forget")


def main(scraper: Scraper, arguments: Sequence[str] | None = None) -> None:
    """Run the typed command with this scraper where it takes one, and exit as `shoal` does."""
    if is_loading():
        raise InvalidInput(
            "This file runs a command when it is imported, which workers do too. Put main() under: "
            'if __name__ == "__main__":'
        )
    typed = list(sys.argv[1:] if arguments is None else arguments)
    # The file is loaded in this process already, and workers must be forked without the user's code.
    ForkServer.may_fork_here = False
    sys.argv = [sys.argv[0], *add_scraper(typed, reference_of(scraper))]
    command.main(f"python {Path(sys.argv[0]).name}")


def add_scraper(typed: Sequence[str], reference: str) -> list[str]:
    """Return typed words with the scraper behind a command that takes one."""
    if not typed or typed[0] not in TAKE_SCRAPER:
        return list(typed)
    return [typed[0], reference, *typed[1:]]


def reference_of(scraper: Scraper) -> str:
    """Return FILE:NAME of a scraper as one would type it in this folder."""
    place, _, name = locate_scraper(scraper).rpartition(":")
    path = Path(place)
    if path.suffix == ".py" and path.is_relative_to(Path.cwd()):
        place = str(path.relative_to(Path.cwd()))
    return f"{place}:{name}"
