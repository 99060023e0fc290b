"""`shoal migrate`: bring a queue's store to this version."""

from shoal.cli import options
from shoal.cli.asking import ask
from shoal.cli.console import put_json, say


def migrate(queue: options.Queue = options.DEFAULT_QUEUE, as_json: options.Json = False) -> None:
    """Bring the queue to this version's schema; safe to run twice and by many at once."""
    found = ask(queue, lambda opened: opened.migrate())
    if as_json:
        put_json({"schema": found})
    else:
        say(f"The queue has schema version {found}.")
