"""Translates the broker's errors into Shoal's."""

from aiormq import exceptions

from shoal.core.errors import QueueError, QueueRefused

REFUSED = (
    exceptions.AuthenticationError,
    exceptions.ProbableAuthenticationError,
    exceptions.ConnectionNotAllowed,
    exceptions.ChannelAccessRefused,
)
PERMANENT = (
    *REFUSED,
    exceptions.IncompatibleProtocolError,
    exceptions.ConnectionNotImplemented,
    exceptions.ChannelPreconditionFailed,
)
ERRORS = (exceptions.AMQPError, exceptions.ChannelInvalidStateError, OSError, TimeoutError)


def is_virtual_host_refused(error: BaseException) -> bool:
    """Return whether the broker closed the connection as soon as it got the name of the virtual host."""
    return isinstance(error, exceptions.InvalidFrameError) and "Connection.Close" in str(error)


def is_temporary(error: BaseException) -> bool:
    """Return whether the same call may succeed a moment later."""
    return not isinstance(error, PERMANENT)


def translate_error(address: str, error: BaseException, queue: str = "") -> QueueError:
    """Return the error to raise to the caller."""
    if isinstance(error, REFUSED):
        return QueueRefused(address, reason_of(error))
    if is_virtual_host_refused(error):
        return QueueRefused(address, "the virtual host does not exist, or this user may not use it")
    if isinstance(error, exceptions.ChannelPreconditionFailed) and queue:
        return QueueError(
            f"The broker at {address} has a queue {queue!r} with other arguments than Shoal declares: "
            f"{reason_of(error)}. Move its messages elsewhere and delete it: rabbitmqctl delete_queue {queue}"
        )
    return QueueError(f"The broker at {address} failed: {reason_of(error)}")


def reason_of(error: BaseException) -> str:
    """Return an error's text in one line, without a full stop: the message continues after it."""
    text = str(error).strip()
    return text.splitlines()[0].rstrip(".") if text else type(error).__name__
