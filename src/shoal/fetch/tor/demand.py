"""New circuits on demand: for a step that sees that its page is not what it should be."""

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary

from shoal.core.urls import host_of


class Renewing(Protocol):
    """Who has circuits to renew."""

    def renew_host(self, host: str) -> None: ...
    async def renew_all(self) -> None: ...


_listening: WeakKeyDictionary[Renewing, asyncio.AbstractEventLoop] = WeakKeyDictionary()


def new_circuit(url: str | None = None) -> None:
    """Let this worker ask a URL's host, or every host, by another circuit from now on."""
    for fetcher, loop in list(_listening.items()):
        if loop.is_closed():
            continue
        # From any thread: a step that is no `async def` runs in one.
        if url is not None:
            loop.call_soon_threadsafe(fetcher.renew_host, host_of(url))
        else:
            asyncio.run_coroutine_threadsafe(fetcher.renew_all(), loop)


def listen(fetcher: Renewing) -> None:
    """Renew this fetcher's circuits on demand."""
    _listening[fetcher] = asyncio.get_running_loop()


def forget(fetcher: Renewing) -> None:
    """Leave this fetcher alone."""
    _listening.pop(fetcher, None)
