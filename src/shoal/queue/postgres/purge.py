"""Deletes the rows of purged runs in batches, each in a transaction of its own."""

from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import PURGE, PURGE_REST, QUERIES

ROWS = 2_000  # of one batch, in tables with an index on the run
BLOCKS = 500  # of one batch, in tables without one: 4 MB that are read
_INDEXED = ("item", "reject", "dead", "expired", "dropped")
_SCANNED = ("attempt", "done", "task")


async def purge(server: PostgresServer, run_id: str) -> None:
    """Delete a run and all its rows."""
    await server.fetch_long(PURGE, run_id)
    await clear_purged(server)


async def clear_purged(server: PostgresServer) -> None:
    """Delete the rows of all purged runs, also of those whose purge was interrupted."""
    for row in await server.fetch("SELECT run FROM shoal.purged"):
        for table in _INDEXED:
            while await server.value(QUERIES["purge_rows"].replace("purge_table", table), row["run"], ROWS):
                pass
        for table in _SCANNED:
            await _scan(server, table, row["run"])
        await server.fetch_long(PURGE_REST, row["run"])


async def _scan(server: PostgresServer, table: str, run: int) -> None:
    """Delete a run's rows block by block; no new ones can appear, because the run is unknown."""
    blocks = await server.value(QUERIES["purge_blocks"].replace("purge_table", table))
    for block in range(0, blocks, BLOCKS):
        first, last = f"({block},0)", f"({block + BLOCKS},0)"
        await server.fetch(QUERIES["purge_scan"].replace("purge_table", table), run, first, last)
