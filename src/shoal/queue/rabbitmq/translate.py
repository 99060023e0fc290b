"""From the broker's errors to Shoal's."""

from aiormq import exceptions

from shoal.core.errors import QueueError, QueueRefused

REFUSED = (
    exceptions.AuthenticationError,
    exceptions.ProbableAuthenticationError,
    exceptions.ConnectionNotAllowed,
    exceptions.ChannelAccessRefused,
)
FOR_GOOD = (
    *REFUSED,
    exceptions.IncompatibleProtocolError,
    exceptions.ConnectionNotImplemented,
    exceptions.ChannelPreconditionFailed,
)
ERRORS = (exceptions.AMQPError, exceptions.ChannelInvalidStateError, OSError, TimeoutError)


def is_unwelcome(error: BaseException) -> bool:
    """Say whether the broker closed the connection as soon as it heard which virtual host was meant."""
    return isinstance(error, exceptions.InvalidFrameError) and "Connection.Close" in str(error)


def is_passing(error: BaseException) -> bool:
    """Say whether the same call may succeed a moment later."""
    return not isinstance(error, FOR_GOOD)


def translated(address: str, error: BaseException, queue: str = "") -> QueueError:
    """Return the error that a caller is to see."""
    if isinstance(error, REFUSED):
        return QueueRefused(address, reason_of(error))
    if is_unwelcome(error):
        return QueueRefused(address, "it knows no such virtual host, or does not let this user in")
    if isinstance(error, exceptions.ChannelPreconditionFailed) and queue:
        return QueueError(
            f"The broker at {address} has a queue {queue!r} that is not as Shoal declares it: "
            f"{reason_of(error)}. Move its messages elsewhere and delete it: rabbitmqctl delete_queue {queue}"
        )
    return QueueError(f"The broker at {address} failed: {reason_of(error)}")


def reason_of(error: BaseException) -> str:
    """Return an error's text in one line, without a full stop: a sentence goes on behind it."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
