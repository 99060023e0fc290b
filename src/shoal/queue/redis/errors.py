"""Translates the driver's errors into Shoal's."""

from redis import exceptions

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueRefused


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
        return QueueError(
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
