"""What goes wrong between a client and its store: lost connections and their retries, TLS, full disks."""

import asyncio
import errno
import logging
import os
import random
import shutil
import ssl
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from shoal.core.errors import QueueUnavailable
from shoal.core.events import QUEUE_AWAY, QUEUE_BACK, as_event
from shoal.core.model import SECOND

RETRY_TIMEOUT = 30 * SECOND  # for each call, unless the caller sets another
MIN_WAIT, MAX_WAIT = 0.05, 2.0  # seconds between two attempts
REPORT_AFTER = 0.5  # seconds; a call that succeeds sooner is not worth a log line
REPORT_INTERVAL_SECONDS = 60.0  # while a server is away

NOT_TRUSTED = "its certificate cannot be verified"

# By OpenSSL's name of the error, the errors of a handshake that another attempt does not change.
_PROBLEMS = {
    "CERTIFICATE_VERIFY_FAILED": NOT_TRUSTED,
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "HANDSHAKE_FAILURE": "it accepts none of the client's certificates or ciphers",
    "UNKNOWN_CA": "it does not know the authority of the client certificate",
    "BAD_CERTIFICATE": "it rejects the client certificate",
    "UNSUPPORTED_CERTIFICATE": "it rejects the client certificate",
    "CERTIFICATE_UNKNOWN": "it rejects the client certificate",
    "CERTIFICATE_EXPIRED": "the client certificate has expired",
    "WRONG_VERSION_NUMBER": "it does not use TLS on this port",
    "KEY_VALUES_MISMATCH": "the client's key does not belong to its certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "the file of its authority contains no certificate",
    "NO_START_LINE": "a certificate or key file is not in PEM format",
}
_FILE_PROBLEM = "a certificate or key file is not in PEM format, or is protected by another password"

# Errors of uvloop, and of the Redis driver for a cluster where another call has closed the connection.
_CLOSED = ("the handler is closed", "'NoneType' object has no attribute 'writelines'")

FULL = (errno.ENOSPC, errno.EDQUOT)
_UNITS = ("B", "KB", "MB", "GB", "TB")

log = logging.getLogger(__name__)


class CancellationCheck:
    """Stops a caller whose cancellation a driver has swallowed: a reply or an error arrived just then."""

    def __init__(self) -> None:
        self._before = _cancellations()  # not 0 in a task that cleans up after its cancellation

    def check(self) -> None:
        """Raise CancelledError if the task was cancelled since this object was created."""
        if _cancellations() > self._before:
            raise asyncio.CancelledError


def _cancellations() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task else 0


class Outage:
    """Logs for all calls that a server is away, once a minute that it still is, and that it is back."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._since: float | None = None
        self._reported = self._ended = 0.0

    def report(self, began: float, now: float, reason: str) -> None:
        """Note that a call that began at `began` has no result by `now`."""
        began = max(began, self._ended)
        if self._since is None and now - began >= REPORT_AFTER:
            self._since, self._reported = began, now
            log.warning("Waiting for the queue at %s: %s", self.address, reason, extra=as_event(QUEUE_AWAY))
        elif self._since is not None and now - self._reported >= REPORT_INTERVAL_SECONDS:
            self._reported = now
            values = (self.address, reason, now - self._since)
            log.warning("Waiting for the queue at %s: %s (for %.0f s)", *values, extra=as_event(QUEUE_AWAY))

    def end(self) -> None:
        """Note that a call succeeded."""
        if self._since is None:
            return
        self._ended = asyncio.get_running_loop().time()
        values = (self.address, self._ended - self._since)
        self._since = None
        log.warning("The queue at %s is back after %.0f s.", *values, extra=as_event(QUEUE_BACK))


class RetryUntil:
    """Waits between the attempts of one call and logs the outage, until the time for retries is over."""

    # Set for the whole process once its workers were killed: then it waits for no server that is away.
    gives_up = False

    def __init__(self, outage: Outage, patience: timedelta) -> None:
        self._outage = outage
        self._began = asyncio.get_running_loop().time()
        self._give_up = self._began + patience.total_seconds()
        self._wait = MIN_WAIT
        self.tries = 0

    @property
    def elapsed(self) -> float:
        """Seconds since the first attempt."""
        return asyncio.get_running_loop().time() - self._began

    async def again(self, reason: str, error: BaseException) -> None:
        """Wait before the next attempt; raises QueueUnavailable when the time is over."""
        self.tries += 1
        now = asyncio.get_running_loop().time()
        if self.gives_up or now + self._wait > self._give_up:
            raise QueueUnavailable(self._outage.address, reason) from error
        self._outage.report(self._began, now + self._wait, reason)
        # Jittered: a fleet that lost its server at one moment must not reconnect at one moment.
        await asyncio.sleep(self._wait * random.uniform(0.5, 1.5))
        self._wait = min(self._wait * 2, MAX_WAIT)


def is_closed(error: RuntimeError | AttributeError) -> bool:
    """Return whether a driver wrote to a connection that was closed already."""
    return str(error).endswith(_CLOSED)


def handshake_problem(error: BaseException) -> str | None:
    """Return why no attempt to connect can succeed with this address; None for other errors."""
    for cause in _causes(error):
        # A driver may have kept nothing of the error but its text.
        text = str(cause)
        for name, problem in _PROBLEMS.items():
            if f"{name}]" in text:
                detail = text.rpartition("certificate verify failed: ")[2].partition(" (_ssl")[0].rstrip(". ")
                return f"{problem}: {detail}" if problem is NOT_TRUSTED and detail != text else problem
        if isinstance(cause, ssl.SSLError) and "[SSL] PEM lib" in text:
            return _FILE_PROBLEM
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it; the errors of aiormq may be causes of each other."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__


def describe_disk(path: Path) -> str:
    """Return the file system of a path with its free space, for a message; the path itself if that fails."""
    place = Path(os.path.realpath(path))
    while not place.is_mount() and place != place.parent:
        place = place.parent
    try:
        usage = shutil.disk_usage(place)
    except OSError:
        return f"the disk of {path}"
    return f"the file system {place} ({_size(usage.free)} of {_size(usage.total)} free)"


def _size(count: float) -> str:
    for unit in _UNITS[:-1]:
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} {_UNITS[-1]}"
