"""Translates errors of PostgreSQL and its connection, without passwords."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.core.errors import ExportFailed, ExportUnavailable, ShoalError

UNAVAILABLE = "Start the server or fix the URL, then run the same command again; no row is half-written"
ACCESS_DENIED = "Check the user, password, database and permissions"
DISK_FULL = "Free disk space on the server, then run the same command again"
BUSY = "Another program holds a lock; wait for it, then run the same command again"
REJECTED = "A constraint of the table forbids it: change the constraint, or use another table"


@contextmanager
def translate_errors(driver: Any, location: str) -> Iterator[None]:
    """Turn driver errors into ExportFailed."""
    try:
        yield
    except Exception as error:
        advice = None if isinstance(error, ShoalError) else _advice(driver, error)
        if advice is None:
            raise
        kind = ExportUnavailable if advice is UNAVAILABLE else ExportFailed
        raise kind(location, _reason(error), advice) from error


def _advice(driver: Any, error: Exception) -> str | None:
    denied = (
        driver.InvalidAuthorizationSpecificationError,
        driver.InsufficientPrivilegeError,
        driver.InvalidCatalogNameError,
        driver.InvalidSchemaNameError,
        driver.ReadOnlySQLTransactionError,
    )
    if isinstance(error, denied):
        return ACCESS_DENIED
    if isinstance(error, driver.DiskFullError):
        return DISK_FULL
    if isinstance(error, (driver.LockNotAvailableError, driver.DeadlockDetectedError)):
        return BUSY
    temporary = (OSError, driver.PostgresConnectionError, driver.OperatorInterventionError)
    if isinstance(error, (*temporary, driver.InsufficientResourcesError, driver.InternalClientError)):
        return UNAVAILABLE
    if isinstance(error, driver.InterfaceError):
        return UNAVAILABLE
    return REJECTED if isinstance(error, driver.PostgresError) else None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "timed out"
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
