"""Changes the limits of a run while it runs."""

from shoal.core.model import Run, RunSettings
from shoal.queue.postgres.server import PostgresServer
from shoal.queue.postgres.sql import QUERIES


async def change_limits(server: PostgresServer, run: Run, new: RunSettings) -> None:
    """Store the limits, and let hosts that wait for the old ones wait for the new ones."""
    await server.fetch(QUERIES["change_run"], run.id, new.host_delay, new.per_host, new.max_attempts)
    await server.fetch(QUERIES["shorten_gaps"], run.id, run.settings.host_delay, new.host_delay)
    await server.fetch(QUERIES["wake_run"], run.id)
