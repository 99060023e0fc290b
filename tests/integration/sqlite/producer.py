"""A process that enqueues tasks, some of them also enqueued by others, and prints the report."""

from dataclasses import asdict

from shoal.core.model import Task
from shoal.queue.sqlite.queue import SqliteQueue
from tests.integration.programs import Orders, Stage, main


async def produce(orders: Orders, stage: Stage) -> dict[str, int]:
    async with await SqliteQueue.open(orders["path"]) as queue:
        await stage.ready()
        tasks = (Task(url=f"https://h{n % 50}.example/{n}") for n in range(orders["first"], orders["last"]))
        return asdict(await queue.enqueue(orders["run"], tasks))


if __name__ == "__main__":
    main(produce)
