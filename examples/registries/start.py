"""Starts a registry from Python, by its mode: python start.py netherlands"""

import asyncio
import json
import sys

import shoal


async def main(name: str) -> None:
    """Print the items of a scraper in single mode; of a distributed one, the command that starts a worker."""
    async with shoal.connect() as app:
        run = await app.start(name)
        if app.job(name).scraper.settings.mode == "distributed":
            print(run.worker_command)
            return
        async for item in run.results():
            print(json.dumps(item))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
