"""What a crash of the server can cost, read from its settings."""

from shoal.core.model import Durability
from shoal.queue.postgres.server import PostgresServer


async def durability(server: PostgresServer) -> Durability:
    """Return what a crash of the server can cost."""
    if not await _is_on(server, "fsync"):
        return Durability(
            False, "The server has fsync off, so a power cut can cost the whole database; turn it on."
        )
    if not await _is_on(server, "full_page_writes"):
        return Durability(
            False,
            "The server has full_page_writes off, so a power cut can cost the whole database; turn it on.",
        )
    commit = await server.value("SELECT current_setting('synchronous_commit')")
    if commit == "off":
        return Durability(
            False, "The server has synchronous_commit off, so a crash can cost the last moments."
        )
    return Durability(True, "Data is on the server's disk before each reply, so a crash costs nothing.")


async def _is_on(server: PostgresServer, setting: str) -> bool:
    return bool(await server.value("SELECT current_setting($1)::bool", setting))
