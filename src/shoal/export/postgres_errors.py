"""What PostgreSQL and the way to it complain about, in Shoal's words and without a password."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from shoal.core.errors import ExportFailed, ExportUnavailable, ShoalError

AWAY = "Start the server or mend the address, and run the same command again; no row was changed by halves"
REFUSED = "Check the user, password, database and rights in the address"
FULL = "Make room there, and run the same command again"
BUSY = "Another program holds it; wait for its end, and run the same command again"
UNFIT = "The table's own rules stand against it: change them, or name another table"


@contextmanager
def translated(driver: Any, place: str) -> Iterator[None]:
    """Raise ExportFailed for what the driver complains about."""
    try:
        yield
    except Exception as error:
        advice = None if isinstance(error, ShoalError) else _advice(driver, error)
        if advice is None:
            raise
        kind = ExportUnavailable if advice is AWAY else ExportFailed
        raise kind(place, _reason(error), advice) from error


def _advice(driver: Any, error: Exception) -> str | None:
    refusals = (
        driver.InvalidAuthorizationSpecificationError,
        driver.InsufficientPrivilegeError,
        driver.InvalidCatalogNameError,
        driver.InvalidSchemaNameError,
        driver.ReadOnlySQLTransactionError,
    )
    if isinstance(error, refusals):
        return REFUSED
    if isinstance(error, driver.DiskFullError):
        return FULL
    if isinstance(error, (driver.LockNotAvailableError, driver.DeadlockDetectedError)):
        return BUSY
    passing = (OSError, driver.PostgresConnectionError, driver.OperatorInterventionError)
    if isinstance(error, (*passing, driver.InsufficientResourcesError, driver.InternalClientError)):
        return AWAY
    if isinstance(error, driver.InterfaceError):
        return AWAY
    return UNFIT if isinstance(error, driver.PostgresError) else None


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
