"""What a crash of the server can cost, from its own settings."""

from shoal.queue.redis.server import Server

_SYNCED = {
    "always": "the server writes every answer to its disk first, so a crash costs nothing",
    "everysec": "the server syncs its log every second, so a crash can cost the last second",
    "no": "the server leaves its log to the system, so a crash of the machine can cost about half a minute",
}


async def durability(server: Server) -> str:
    """Say in one sentence what a crash of the server can cost."""
    said = await _said(server)
    return f"{said[0].upper()}{said[1:]}."


async def _said(server: Server) -> str:
    policy = await server.setting(0, "maxmemory-policy")
    if policy not in (None, "noeviction") and await server.setting(0, "maxmemory") not in (None, "0"):
        return f"the server throws keys away when it is full ({policy}), and tasks with them; set noeviction"
    appendonly = await server.setting(0, "appendonly")
    if appendonly is None:
        return "the server does not say how it saves; ask its operator whether appendonly is on"
    if appendonly == "yes":
        fsync = await server.setting(0, "appendfsync") or "everysec"
        return _SYNCED.get(fsync, _SYNCED["everysec"])
    if save := await server.setting(0, "save"):
        seconds = max(int(word) for word in save.split()[::2])
        return (
            f"the server saves a snapshot now and then (save {save}), so a crash can cost up to "
            f"{seconds:,} seconds; turn on appendonly to lose one at most"
        )
    return "the server saves nothing, so a crash costs the whole queue; turn on appendonly"
