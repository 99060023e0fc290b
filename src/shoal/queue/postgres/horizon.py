"""Up to which id a reader may go, so that nothing it has passed can still turn up behind it.

Ids are drawn before a settlement commits, so a higher id may be seen before a lower one.
"""

import asyncio
import logging
from datetime import timedelta

from shoal.queue.postgres.server import Server
from shoal.queue.postgres.sql import QUERIES

# The last export of a run must come to an end, also when a settlement hangs.
PATIENCE = timedelta(seconds=10)
FIRST_WAIT, LONGEST_WAIT = 0.01, 0.2  # seconds

log = logging.getLogger(__name__)


async def settled(server: Server, run_id: str, table: str) -> int:
    """Return an id below which nothing more will turn up, once all that may be stored there has been.

    All that is committed now lies below it. After PATIENCE it is returned all the same.
    """
    rows = await server.fetch(QUERIES["drawn"], run_id, f"{server.schema}.{table}_id_seq")
    if not rows:  # purged
        return 0
    if not await _ended(server, rows[0]["storing"]):
        log.warning("Run %s: a settlement takes long; its items may be read out of order", run_id)
    return int(rows[0]["drawn"])


async def _ended(server: Server, transactions: list[str]) -> bool:
    """Wait for transactions to end; tells whether they did."""
    loop = asyncio.get_running_loop()
    until, wait = loop.time() + PATIENCE.total_seconds(), FIRST_WAIT
    while transactions:
        if loop.time() > until:
            return False
        await asyncio.sleep(wait)
        wait = min(2 * wait, LONGEST_WAIT)
        transactions = [row[0] for row in await server.fetch(QUERIES["under_way"], transactions)]
    return True
