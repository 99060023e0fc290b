"""State shared by the requests of one task, where a task uses one proxy."""

from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from shoal.fetch.proxies.health import ProxyHealth

_current: ContextVar["list[ProxyHealth] | None"] = ContextVar("the proxy of this task", default=None)


def begin_task() -> None:
    """Use one proxy for all requests from here on, in this asyncio task and those it creates."""
    _current.set([])


def current() -> "list[ProxyHealth] | None":
    """Return the list that holds the proxy of this task; None outside of a task."""
    return _current.get()
