"""Exports many items in its own process and prints the memory used: python -m …export.probe TARGET COUNT."""

import asyncio
import json
import resource
import sys
from datetime import UTC, datetime

from shoal.core.model import StoredItem
from shoal.export.follow import export
from shoal.export.open import open_writer

NOON = datetime(2026, 2, 15, 12, tzinfo=UTC)


async def many(count):
    for number in range(count):
        data = {"isbn": number, "title": f"book {number} " * 5, "price": number / 4, "tags": ["a", number]}
        yield StoredItem(
            id=number, task_id="t", url="https://a.test/", step="book", data=data, stored_at=NOON
        )


async def main(target, count):
    with open_writer("/dev/null", format="jsonl") as idle:
        idle.write([])
    before = _peak()
    report = await export(lambda: many(count), open_writer(target, key=["isbn"] if "://" in target else ()))
    print(json.dumps({"items": report.items, "grown": _peak() - before, "peak": _peak()}))


def _peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
