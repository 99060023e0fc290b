"""Opens a queue for one command."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import uvloop

from shoal.cli.configuration import current_config
from shoal.cli.console import messages_without_waiting, say
from shoal.cli.signals import ignore_further_signals
from shoal.core.tasks import supervise
from shoal.core.values import read_duration
from shoal.fleet.command_hints import command_on, joined
from shoal.fleet.status.find import deletion_named, find_run
from shoal.queue.address import shown_queue
from shoal.queue.contract import Queue
from shoal.queue.open import is_there, open_queue
from shoal.queue.outages import RETRY_TIMEOUT

T = TypeVar("T")
DEFAULT_LIMIT = 50  # rows of a list


def with_queue(url: str, work: "Callable[[Queue], Awaitable[T]]") -> T:
    """Open the queue, run `work` with it, close it, and return the result."""

    async def run() -> T:
        given = current_config().text("SHOAL_PATIENCE")
        patience = read_duration("SHOAL_PATIENCE", given) if given else RETRY_TIMEOUT
        with ignore_further_signals():
            async with open_queue(url, patience=patience) as queue:
                return await supervise(work(queue))

    with messages_without_waiting():
        return uvloop.run(run())


def with_existing_queue(url: str, work: "Callable[[Queue], Awaitable[T]]") -> T:
    """Run `work` on an existing queue; if its file is missing, on an empty one, to create no file."""
    if is_there(url):
        return with_queue(url, work)
    with TemporaryDirectory() as folder:
        return with_queue(f"sqlite:///{folder}/empty.db", work)


def with_run(url: str, name: str | None, work: "Callable[[Queue, str], Awaitable[T]]") -> tuple[str, T]:
    """Run `work` on the run that `name` means; return its id and the result. No name means the newest run.

    Raises RunGone if the run is deleted meanwhile.
    """

    async def found(queue: "Queue") -> tuple[str, T]:
        run = await find_run(queue, name)
        with deletion_named(run.id):
            return run.id, await work(queue, run.id)

    return with_existing_queue(url, found)


async def id_of(queue: "Queue", name: str | None) -> str | None:
    """Return the id of the run that an optional filter means; None for all runs."""
    return None if name is None else (await find_run(queue, name)).id


def say_queue(url: str) -> None:
    """Print the heading of a list: the queue that it was read from, without a password."""
    say(f"Queue {shown_queue(url)}")


def say_more(
    url: str, words: Sequence[str], options: Mapping[str, Any], found: Sequence[Any], limit: int
) -> None:
    """Print the command that continues a list if there are more than `limit` rows.

    `words` are those of the command, `options` what was given, of which the empty ones are left out.
    """
    if len(found) <= limit:
        return
    last = found[limit - 1]
    given = {**options, "--limit": limit if limit != DEFAULT_LIMIT else None}
    given["--after"] = last.cursor if hasattr(last, "cursor") else last.id
    typed = [word for name, value in given.items() if value for word in _option(name, value)]
    say(f"There are more; continue with: {command_on(url, joined([*words, *typed]))}")


def _option(name: str, value: Any) -> list[str]:
    return [name] if value is True else [name, str(value)]
