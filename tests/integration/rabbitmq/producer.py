"""A process that enqueues pages in an order of its own, a hundred at a time, and reports the counts."""

import asyncio
import json
import random
import sys
from dataclasses import asdict
from typing import Any

from shoal.core.model import EnqueueReport, Task
from shoal.queue.open import open_queue

BATCH = 100


async def work(orders: dict[str, Any]) -> dict[str, int]:
    pages = list(range(*orders["pages"]))
    random.Random(orders["name"]).shuffle(pages)
    report = EnqueueReport()
    async with open_queue(orders["url"]) as queue:
        for start in range(0, len(pages), BATCH):
            tasks = [
                Task(url=f"https://h{page % 40}.example/{page}") for page in pages[start : start + BATCH]
            ]
            report += await queue.enqueue(orders["run"], tasks)
    return asdict(report)


if __name__ == "__main__":
    print(json.dumps(asyncio.run(work(json.loads(sys.argv[1])))))
