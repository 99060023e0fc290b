"""`shoal migrate`: migrate a queue to this version's schema."""

from shoal.cli.console import put_json, say
from shoal.cli.open_queue import with_queue
from shoal.cli.options import common


def migrate(queue: common.Queue = common.DEFAULT_QUEUE, as_json: common.Json = False) -> None:
    """Migrate the queue to this version's schema; safe to repeat and to run concurrently."""
    found = with_queue(queue, lambda opened: opened.migrate())
    if as_json:
        put_json({"schema": found})
    else:
        say(f"The queue is at schema version {found}.")
