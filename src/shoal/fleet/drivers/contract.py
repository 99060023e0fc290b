"""The seam between the autoscaler and the place where workers live."""

from typing import Protocol

from shoal.core.errors import ShoalError


class DriverFailed(ShoalError):
    """The workers could not be counted or changed; trying again later may help."""


class Driver(Protocol):
    """Has a number of workers somewhere."""

    async def count(self) -> int:
        """Return how many workers there are, without those that are on their way out."""
        ...

    async def set(self, count: int) -> None:
        """Have so many from now on: start what is missing, and let the surplus finish what it has in hand."""
        ...
