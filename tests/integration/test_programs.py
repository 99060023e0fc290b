"""Programs that are forked from one process are as separate as any."""

import pytest

from shoal.queue.open import open_queue
from tests.integration.programs import reports_of, run_programs

CLAIMER, OPENER = "tests.integration.queues.claimer", "tests.integration.queues.opener"


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/queue.db"


async def test_one_that_is_killed_leaves_the_others_alone(url):
    async with open_queue(url) as queue:
        run = await queue.start_run("books")
        orders = [{"url": url, "name": f"claimer-{n}", "runs": [run.id]} for n in range(3)]
        async with run_programs(CLAIMER, orders) as (first, *others):
            await first.kill()
            with pytest.raises(AssertionError):
                await first.says()  # its streams are closed, though others were forked after it
            assert [await other.report() for other in others] == [{"accepted": 0, "stale": 0, "twice": 0}] * 2


async def test_one_that_fails_says_why(url):
    orders = [{"url": address, "name": "run"} for address in (url, "sqlitee:///queue.db")]
    with pytest.raises(AssertionError, match="Did you mean"):
        await reports_of(OPENER, orders)
