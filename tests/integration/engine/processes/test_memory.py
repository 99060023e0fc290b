"""A worker holds a bounded amount of pages, however large they are."""

import os
from pathlib import Path

import pytest

from tests.integration.engine.origin import Answer

SIZE = 16 << 20
MOST = 128 << 20
PAGES = 60


@pytest.mark.long
async def test_many_large_pages_at_once_stay_within_the_limit(bench, origin):
    body = "x" * SIZE
    origin.answer = lambda path: Answer(body)
    peaks = []

    def look(snapshot, pool):
        peaks.extend(_memory(pid) for pid in pool.pids)

    bench.witness.on_saw = look
    summary = await bench.run(
        """
        large = Scraper("large", rate=None, robots=False, per_host=64)

        @large.step
        async def page(page: Page):
            yield {"size": len(page.body)}
        """,
        [f"{origin.url}/{number}" for number in range(PAGES)],
        memory="128 MB",
    )
    assert [item["size"] for item in await bench.items(summary.run.id)] == [SIZE] * PAGES
    # Beside the bodies: the interpreter, the page that may always go on, and the texts that are made of them.
    assert max(peaks) < MOST + 20 * SIZE < PAGES * SIZE // 2


def _memory(pid):
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except FileNotFoundError:
        return 0
