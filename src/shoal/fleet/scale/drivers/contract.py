"""The interface between the autoscaler and the environment that runs the workers."""

from typing import Protocol

from shoal.core.errors import ShoalError


class DriverFailed(ShoalError):
    """The workers could not be counted or scaled; a retry may succeed."""


class Driver(Protocol):
    """Runs a number of workers in some environment."""

    async def count(self) -> int:
        """Return the number of workers, without those that are stopping."""
        ...

    async def set(self, count: int) -> None:
        """Scale to `count` workers: start missing ones; surplus ones finish their running tasks and end."""
        ...
