"""Translates the driver's errors into Shoal's."""

from collections.abc import Awaitable, Callable
from typing import Any

from redis import exceptions

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueRefused

# The keys of a shard by their types, to find a key of another program under one of Shoal's names.
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
OF_HOST: dict[str, tuple[str, ...]] = {"set": ("live:", "lanes:")}
MAX_HOSTS = 2_000  # whose keys are looked at
Command = Callable[..., Awaitable[Any]]


class SlotMoving(exceptions.RedisError):
    """A slot of the queue is being moved to another node."""

    def __init__(self, target: str) -> None:
        super().__init__(
            f"a slot of it is being moved to {target}, and the queue stops until that is done. "
            "Stop the fleet before you move slots"
        )


_TEMPORARY = (
    SlotMoving,
    exceptions.ConnectionError,
    exceptions.TimeoutError,
    exceptions.ClusterError,
    exceptions.ClusterDownError,
    exceptions.TryAgainError,
    exceptions.AskError,
    exceptions.MasterDownError,
    exceptions.RedisClusterException,
    OSError,
    TimeoutError,
)
_TEMPORARY_WORDS = ("LOADING", "BUSY ", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS")
_REFUSED_WORDS = ("WRONGPASS", "NOAUTH", "NOPERM", "ERR invalid password", "ERR Client sent AUTH", "ERR AUTH")


class WrongType(QueueError):
    """A key with one of Shoal's names has another type."""


def is_temporary(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return False
    return isinstance(error, _TEMPORARY) or _starts_with(error, _TEMPORARY_WORDS)


def is_read_only(error: BaseException) -> bool:
    """Return whether the server is a replica."""
    return isinstance(error, exceptions.ReadOnlyError) or _starts_with(error, ("READONLY",))


def lost_shard(address: str, shard: str) -> QueueError:
    """Return the error for a shard of a cluster that has lost all its data."""
    return QueueError(
        f"The queue at {address} has lost all data of its shard {shard}: a node restarted empty, "
        "or a slot was moved without its keys. Restore the data. If it is gone, export what is left "
        "and start again in another ?namespace=NAME, or after redis-cli --cluster call HOST:PORT FLUSHALL, "
        "which deletes every namespace"
    )


def translate_error(address: str, error: BaseException) -> QueueError:
    """Return the error to raise to the caller."""
    reason = reason_of(error)
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError) or _starts_with(
        error, _REFUSED_WORDS
    ):
        return QueueRefused(address, reason)
    if isinstance(error, exceptions.OutOfMemoryError) or "OOM command not allowed" in reason:
        return QueueFull(address, "Redis has reached its maxmemory")
    if is_read_only(error) or "READONLY" in reason:
        return QueueReadOnly(address, "this server is a replica")
    if "MISCONF" in reason:
        return QueueReadOnly(address, "Redis cannot save to its disk")
    if isinstance(error, exceptions.MovedError):
        return QueueError(f"The queue at {address} is a cluster. Add ?cluster=true to its address")
    if "WRONGTYPE" in reason:
        return WrongType(
            f"The queue at {address} failed: another program has a value of another type in a key of Shoal. "
            "Give Shoal a database of its own, such as redis://host:6379/1, or a namespace: add "
            f"?namespace=NAME to its address ({reason})"
        )
    return QueueError(f"The queue at {address} failed: {reason}")


def reason_of(error: BaseException) -> str:
    """Return an error's text in one line."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _starts_with(error: BaseException, words: tuple[str, ...]) -> bool:
    return str(error).startswith(words)


async def foreign_key(command: Command, prefix: str) -> tuple[str, str, str] | None:
    """Return the first key of a shard of the wrong type, the type it has, and the type it should have."""
    if found := await _first(command, prefix, OF_SHARD):
        return found
    for number in sorted(await command("HVALS", f"{prefix}runs"), key=int):
        found = await _first(command, f"{prefix}run:{int(number)}", {"hash": ("",)})
        found = found or await _first(command, f"{prefix}{int(number)}:", OF_RUN)
        if found:
            return found
    for host in await command("LRANGE", f"{prefix}hosts", 0, MAX_HOSTS - 1):
        if found := await _first(command, prefix, OF_HOST, host.decode()):
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
