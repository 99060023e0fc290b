"""A process that opens a queue when it is told to, uses it once, and reports its schema's version."""

from shoal.queue.open import open_queue
from tests.integration.programs import Orders, Stage, main


async def work(orders: Orders, stage: Stage) -> int:
    await stage.ready()
    async with open_queue(orders["url"]) as queue:
        await queue.start_run("books", run_id=orders["name"])
        return await queue.migrate()


if __name__ == "__main__":
    main(work)
