"""A fleet clears up what its queue keeps for itself, without a command of its own."""

import asyncpg
import pytest

from shoal.fleet import maintenance
from tests.integration.engine.conftest import Bench
from tests.integration.engine.origin import Answer

PAGES = 40
SCRAPER = """
    pages = Scraper("pages", rate=None, robots=False)

    @pages.step
    async def leaf(page: Page):
        yield {"path": page.url}
"""
LEFT = "SELECT (SELECT count(*) FROM shoal.receipt WHERE at < now() - interval '1 hour')"


@pytest.fixture
async def direct(postgres_url):
    connection = await asyncpg.connect(postgres_url)
    yield connection
    await connection.close()


async def test_workers_clear_old_receipts_and_fold_counts_while_they_work(
    tmp_path, postgres_url, direct, origin, monkeypatch
):
    monkeypatch.setattr(maintenance, "MAX_FIRST_DELAY_SECONDS", 0.0)
    origin.answer = lambda path: Answer(path, after=0.1)
    bench = Bench(tmp_path, postgres_url)
    await direct.execute(
        "INSERT INTO shoal.receipt SELECT gen_random_uuid(), now() - interval '2 hours', '{1}'"
        " FROM generate_series(1, 500)"
    )
    await bench.run(SCRAPER, [f"{origin.url}/{number}" for number in range(PAGES)], workers=1, concurrency=4)
    assert await direct.fetchval(LEFT) == 0
    assert await direct.fetchval("SELECT count(*) FROM shoal.step_group_counters WHERE kind = 0") == 1
