"""Wait until calls are blocked by a lock."""

import asyncio
from typing import Any

WAITING = """
    SELECT count(DISTINCT l.pid) FROM pg_locks l
    JOIN pg_stat_activity a ON a.pid = l.pid AND a.datname = current_database()
    WHERE NOT l.granted
"""


async def someone_waits(direct: Any, *, how_many: int = 1) -> None:
    """Return once this many calls wait for a lock."""
    async with asyncio.timeout(10):
        while await direct.fetchval(WAITING) < how_many:
            await asyncio.sleep(0.005)
