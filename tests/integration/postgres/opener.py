"""A process that opens a queue, and reports the version of its schema."""

from shoal.queue.postgres.queue import PostgresQueue
from tests.integration.postgres.crew import Orders, Stage, main


async def work(orders: Orders, stage: Stage) -> int:
    await stage.ready()
    async with await PostgresQueue.open(orders["url"]) as queue:
        return await queue.migrate()


if __name__ == "__main__":
    main(work)
