"""Enqueues a URL file, and halts at a task: python -m …discover.producer DB FILE REJECTS RUN PAUSE_AT."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import asdict

from shoal.core.model import Task
from shoal.discover.feed import Feed
from shoal.discover.files.files import UrlFile
from shoal.discover.rejects import RejectFile
from shoal.queue.open import open_queue


async def main(database: str, path: str, rejects: str, run_id: str, pause_at: str) -> None:
    async with open_queue(database) as queue:
        with RejectFile(rejects) as file:
            run = await queue.start_run("books", run_id=run_id)
            feed = Feed(UrlFile(path), on_refusal=file.write)
            report = await queue.enqueue(run.id, _paused(feed, int(pause_at)), on_invalid=feed.invalid)
    print(json.dumps({**asdict(report), "passed": feed.passed, "refused": feed.refused}))


async def _paused(feed: Feed, pause_at: int) -> AsyncIterator[Task]:
    async for task in feed:
        yield task
        if feed.passed == pause_at:
            print("half", flush=True)
            await asyncio.sleep(60)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
