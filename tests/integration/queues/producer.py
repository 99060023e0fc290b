"""A process that enqueues pages in an order of its own, a hundred at a time, and reports the counts."""

import random
from dataclasses import asdict

from shoal.core.model import EnqueueReport, Task
from shoal.queue.open import open_queue
from tests.integration.programs import Orders, Stage, main
from tests.integration.queues.web import page_url

BATCH = 100


async def work(orders: Orders, stage: Stage) -> dict[str, int]:
    pages = list(range(*orders["pages"]))
    random.Random(orders["name"]).shuffle(pages)
    report = EnqueueReport()
    async with open_queue(orders["url"]) as queue:
        await stage.ready()
        for start in range(0, len(pages), BATCH):
            tasks = [Task(url=page_url(page)) for page in pages[start : start + BATCH]]
            report += await queue.enqueue(orders["run"], tasks)
    return asdict(report)


if __name__ == "__main__":
    main(work)
