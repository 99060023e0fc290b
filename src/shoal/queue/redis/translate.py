"""From the driver's errors to Shoal's."""

from redis import exceptions

from shoal.core.errors import QueueError, QueueFull, QueueReadOnly, QueueRefused

_PASSING = (
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


def translated(address: str, error: BaseException) -> QueueError:
    """Return the error that a caller is to see."""
    reason = reason_of(error)
    if isinstance(error, exceptions.AuthenticationError | exceptions.NoPermissionError) or _says(
        error, _REFUSED_WORDS
    ):
        return QueueRefused(address, reason)
    if isinstance(error, exceptions.OutOfMemoryError) or "OOM command not allowed" in reason:
        return QueueFull(address, "Redis has reached its maxmemory")
    if isinstance(error, exceptions.ReadOnlyError) or "READONLY" in reason:
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
