"""The root of the error tree."""

from typing import Any


class ShoalError(Exception):
    """Something went wrong in Shoal."""

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (self.__doc__ or type(self).__name__).splitlines()[0])

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as it is: an `__init__` with required arguments could not be called again.
        return _unpickle, (type(self), self.args, self.__dict__)


def _unpickle(kind: type[ShoalError], args: tuple[Any, ...], facts: dict[str, Any]) -> ShoalError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(facts)
    return error
