"""Reads seeds that code of users and plugins yields: those of a scraper, those of a source."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from typing import Any

from shoal.core.errors import ShoalError
from shoal.core.failures import error_with_place
from shoal.discover.source import OpenSource, SourceOptions
from shoal.scrape.scraper import Scraper
from shoal.scrape.seeds import iterate_seeds, user_code

BATCH, BATCH_SECONDS = 500, 0.1


async def iterate_scraper_seeds(scraper: Scraper) -> AsyncIterator[Any]:
    """Yield the seeds of a scraper; raises ShoalError if its function fails."""
    for one in scraper.start:
        yield one
    if scraper.seed_function is None:
        return
    seeds = iterate_seeds(scraper.seed_function, scraper.args, _iterate_in_thread)
    async for one in _iterate_guarded(f"The seeds function of {scraper.name!r}", seeds):
        yield one


async def iterate_source(
    kind: str, opener: OpenSource, addresses: Sequence[str], options: SourceOptions
) -> AsyncIterator[Any]:
    """Yield what a plugin's source yields; raises ShoalError if it fails."""
    seeds = iterate_seeds(lambda: opener(addresses, options), None, _iterate_in_thread)
    async for one in _iterate_guarded(f"The source {kind!r}", seeds):
        yield one


async def _iterate_guarded(what: str, seeds: AsyncIterator[Any]) -> AsyncIterator[Any]:
    count = 0
    try:
        while True:
            try:
                with user_code():
                    one = await anext(seeds)
            except StopAsyncIteration:
                return
            yield one
            count += 1
    except ShoalError:
        raise
    except Exception as error:
        seeds_read = f"{count:,} seed{'' if count == 1 else 's'}"
        raise ShoalError(
            f"{what} failed after {seeds_read}: {error_with_place(error)}. "
            "Fix it and repeat the command; a run that has tasks already continues with --resume newest"
        ) from error


async def _iterate_in_thread(found: Iterable[Any]) -> AsyncIterator[Any]:
    """Yield from an iterable that may block, such as one that reads a database."""
    iterator = iter(found)
    while True:
        batch, error = await asyncio.to_thread(_take, iterator)
        for one in batch:
            yield one
        if error:
            raise error
        if not batch:
            return


def _take(iterator: Iterator[Any]) -> tuple[list[Any], Exception | None]:
    """Return the next few, and the error that ended them."""
    until, batch = time.monotonic() + BATCH_SECONDS, list[Any]()
    try:
        for one in iterator:
            batch.append(one)
            if len(batch) >= BATCH or time.monotonic() > until:
                break
    except Exception as error:
        return batch, error
    return batch, None
