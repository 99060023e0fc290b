"""A process that opens a queue when it is told to, uses it once, and reports its schema's version."""

from shoal.queue.sqlite.queue import SqliteQueue
from tests.integration.sqlite.crew import Orders, main, ready


async def open_it(orders: Orders) -> int:
    await ready()
    async with await SqliteQueue.open(orders["path"]) as queue:
        await queue.start_run("books", run_id=orders["name"])
        return await queue.migrate()


if __name__ == "__main__":
    main(open_it)
