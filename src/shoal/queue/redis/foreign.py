"""Finds a key of another program under one of Shoal's names."""

from collections.abc import Awaitable, Callable
from typing import Any

OF_SHARD = {
    "hash": ("meta", "runs", "gates", "purging", "spreading", "topics"),
    "zset": ("moments", "overdue", "fading"),
    "list": ("hosts",),
    "set": ("gone", "sending"),
}
OF_RUN = {
    "hash": ("sections", "names", "leases", "bodies", "seen", "dead", "tally", "hosts", "workers", "beats"),
    "zset": ("deadlines", "delayed", "expiry", "graves"),
    "list": ("expired", "dropped", "visited"),
    "stream": ("items", "rejects", "outbox", "delivered"),
    "set": ("tracks",),
}
OF_TOPIC: dict[str, tuple[str, ...]] = {"hash": ("note:", "value:"), "zset": ("aged:", "fading:")}
Command = Callable[..., Awaitable[Any]]


async def foreign_key(command: Command, prefix: str) -> tuple[str, str, str] | None:
    """Return the first key of a shard of the wrong type, the type it has, and the type it should have."""
    if found := await _first(command, prefix, OF_SHARD):
        return found
    for number in sorted(await command("HVALS", f"{prefix}runs"), key=int):
        found = await _first(command, f"{prefix}run:{int(number)}", {"hash": ("",)})
        found = found or await _first(command, f"{prefix}{int(number)}:", OF_RUN)
        if found:
            return found
    for topic in await command("HKEYS", f"{prefix}topics"):
        if found := await _first(command, prefix, OF_TOPIC, topic.decode()):
            return found
    return None


async def _first(
    command: Command, prefix: str, types: dict[str, tuple[str, ...]], suffix: str = ""
) -> tuple[str, str, str] | None:
    for wanted, names in types.items():
        for name in names:
            key = prefix + name + suffix
            has = (await command("TYPE", key)).decode()
            if has not in ("none", wanted):
                return key, has, wanted
    return None
