"""From the driver's errors to Shoal's."""

from redis import exceptions

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueRefused


class SlotMoving(exceptions.RedisError):
    """A slot of the queue is being moved to another node."""

    def __init__(self, target: str) -> None:
        super().__init__(
            f"a slot of it is being moved to {target}, and the queue stands still until that is done. "
            "Stop the fleet before you move slots"
        )


_PASSING = (
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
_PASSING_WORDS = ("LOADING", "BUSY ", "TRYAGAIN", "CLUSTERDOWN", "MASTERDOWN", "UNBLOCKED", "NOREPLICAS")
_REFUSED_WORDS = ("WRONGPASS", "NOAUTH", "NOPERM", "ERR invalid password", "ERR Client sent AUTH", "ERR AUTH")


class WrongType(QueueError):
    """A key under Shoal's names holds something else."""


def is_passing(error: BaseException) -> bool:
    """Say whether the same call may succeed a moment later."""
    if isinstance(error, exceptions.AuthenticationError | exceptions.AuthorizationError):
        return False
    return isinstance(error, _PASSING) or _says(error, _PASSING_WORDS)


def is_read_only(error: BaseException) -> bool:
    """Say whether the server is a replica."""
    return isinstance(error, exceptions.ReadOnlyError) or _says(error, ("READONLY",))


def lost_shard(address: str, shard: str) -> QueueError:
    """Return the error for a shard of a cluster that has forgotten everything."""
    return QueueError(
        f"The queue at {address} has lost all that was in its shard {shard}: a node came back empty, "
        "or a slot was moved without its keys. Bring the data back. If it is gone, export what is left "
        "and begin anew in another ?namespace=NAME, or after redis-cli --cluster call HOST:PORT FLUSHALL, "
        "which deletes every namespace"
    )


def translated(address: str, error: BaseException) -> QueueError:
    """Return the error that a caller is to see."""
    reason = reason_of(error)
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError) or _says(
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
        return WrongType(f"The queue at {address} failed: {reason}")
    return QueueError(f"The queue at {address} failed: {reason}")


def reason_of(error: BaseException) -> str:
    """Return an error's text in one line."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__


def _says(error: BaseException, words: tuple[str, ...]) -> bool:
    return str(error).startswith(words)
