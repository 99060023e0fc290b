"""Asking a queue for one thing."""

import os
import shlex
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, TypeVar

from shoal.cli.console import say

if TYPE_CHECKING:
    from shoal.queue.contract import Queue

T = TypeVar("T")


def ask(url: str, work: "Callable[[Queue], Awaitable[T]]") -> T:
    """Open the queue, do the work, close it, and return what came of it."""
    import uvloop

    async def opened() -> T:
        from shoal.cli.stopping import ended_in_peace
        from shoal.core.tasks import supervise
        from shoal.core.values import read_duration
        from shoal.queue.open import PATIENCE, open_queue

        given = os.environ.get("SHOAL_PATIENCE")
        patience = read_duration("SHOAL_PATIENCE", given) if given else PATIENCE
        with ended_in_peace():
            async with open_queue(url, patience=patience) as queue:
                return await supervise(work(queue))

    return uvloop.run(opened())


def ask_existing(url: str, work: "Callable[[Queue], Awaitable[T]]") -> T:
    """Ask a queue that should be there: where its file is not, an empty one, so that asking makes none."""
    from shoal.queue.open import is_there

    if is_there(url):
        return ask(url, work)
    with TemporaryDirectory() as folder:
        return ask(f"sqlite:///{folder}/empty.db", work)


async def first(source: AsyncIterator[T], limit: int) -> AsyncIterator[T]:
    """Yield the first few, and ask for no more."""
    count = 0
    async for entry in source:
        yield entry
        count += 1
        if count >= limit:
            return


def say_more(found: Sequence[Any], limit: int) -> None:
    """Say where a list goes on of which more than `limit` rows were found."""
    if len(found) > limit:
        say(f"There are more; go on with: --after {shlex.quote(found[limit - 1].place)}")
