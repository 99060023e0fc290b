"""The id up to which a reader may read without missing rows that become visible later.

Ids are assigned before a settlement commits, so a higher id may become visible before a lower one.
"""

import asyncio
import logging
from datetime import timedelta

from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES

# The last export of a run must finish even if a settlement hangs.
SETTLE_TIMEOUT = timedelta(seconds=10)
MIN_WAIT, MAX_WAIT = 0.01, 0.2  # seconds

log = logging.getLogger(__name__)


async def find_horizon(server: PostgresServer, run_id: str, table: str) -> int:
    """Wait until no running settlement can store a lower id, and return the id up to which to read.

    Everything committed now is below it. After SETTLE_TIMEOUT it is returned in any case.
    """
    rows = await server.fetch(QUERIES["read_horizon"], run_id, f"{server.schema}.{table}_id_seq")
    if not rows:  # purged
        return 0
    if not await _wait_for_end(server, rows[0]["storing"]):
        log.warning("Run %s: a settlement takes too long; its items may be read out of order", run_id)
    return int(rows[0]["drawn"])


async def _wait_for_end(server: PostgresServer, transactions: list[str]) -> bool:
    """Wait for transactions to end; False after SETTLE_TIMEOUT."""
    loop = asyncio.get_running_loop()
    deadline, wait = loop.time() + SETTLE_TIMEOUT.total_seconds(), MIN_WAIT
    while transactions:
        if loop.time() > deadline:
            return False
        await asyncio.sleep(wait)
        wait = min(2 * wait, MAX_WAIT)
        transactions = [row[0] for row in await server.fetch(QUERIES["running_transactions"], transactions)]
    return True
