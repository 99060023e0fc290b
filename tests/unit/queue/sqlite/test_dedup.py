"""Keys that other runs skip are deleted when they expire, in batches."""

import apsw

from shoal.core.model import MINUTE
from shoal.queue.sqlite.enqueue import FORGET_BATCH as BATCH
from shoal.queue.sqlite.queue import SqliteQueue
from tests.conformance.backends import VirtualClock
from tests.conformance.helpers import page, pages, start

KEPT = "SELECT count(*) FROM dedup"


async def test_reclaim_deletes_all_keys_whose_time_is_over_and_no_other(address):
    clock, direct = VirtualClock(), apsw.Connection(str(address.path))
    async with await SqliteQueue.open(address.path, now=clock.now) as queue:
        await start(queue, *pages(2 * BATCH + 1), dedup=MINUTE)
        await clock.forward(MINUTE / 2)
        await start(queue, page("young"), dedup=MINUTE)
        await queue.reclaim()
        assert direct.execute(KEPT).fetchone() == (2 * BATCH + 2,)
        await clock.forward(MINUTE / 2)
        await queue.reclaim()
        assert direct.execute(KEPT).fetchone() == (1,)
    direct.close()
