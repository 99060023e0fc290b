"""What a crash of the server can cost, from its own settings."""

from shoal.queue.postgres.server import Server


async def durability(server: Server) -> str:
    """Say in one sentence what a crash of the server can cost."""
    if not await _is_on(server, "fsync"):
        return "The server has fsync off, so a power cut can cost the whole database; turn it on."
    if not await _is_on(server, "full_page_writes"):
        return "The server has full_page_writes off, so a power cut can cost the whole database; turn it on."
    commit = await server.value("SELECT current_setting('synchronous_commit')")
    if commit == "off":
        return "The server has synchronous_commit off, so a crash can cost the last moments."
    return "Every answer is on the server's disk first, so a crash costs nothing."


async def _is_on(server: Server, setting: str) -> bool:
    return bool(await server.value("SELECT current_setting($1)::bool", setting))
