"""A coordinator that fires schedules, and reads the store's time as if by a clock that is wrong."""

import asyncio
import json
import sys
from datetime import timedelta
from pathlib import Path

from shoal.fleet.app import App
from shoal.fleet.cluster_roles import MessageObserver
from shoal.fleet.project.file import read
from shoal.fleet.schedule_coordinator import ScheduleCoordinator
from shoal.queue.open import open_queue


async def fire(url: str, folder: str, skew: float) -> None:
    async with open_queue(url) as queue:
        right = queue.now

        async def now():
            return await right() + timedelta(seconds=skew)

        queue.now = now
        app = App(queue, url, read(Path(folder) / "shoal.toml"))
        await ScheduleCoordinator(
            app, MessageObserver(lambda text: print(text, file=sys.stderr, flush=True))
        ).serve()


if __name__ == "__main__":
    asyncio.run(fire(*json.loads(sys.argv[1])))
