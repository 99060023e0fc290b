"""What the requests of one task have in common, where a task goes one way."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.fetch.proxies.standing import Standing

_current: ContextVar["list[Standing] | None"] = ContextVar("the proxy of this task", default=None)


def begin_task() -> None:
    """Let all that is asked for from here on, in this asyncio task and those it makes, go one way."""
    _current.set([])


def current() -> "list[Standing] | None":
    """Return where the proxy of this task is written down; None outside of a task."""
    return _current.get()
