"""New circuits on demand: for a step that recognises a bad page."""

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary

from shoal.core.urls import host_of


class CircuitRenewal(Protocol):
    """A fetcher with circuits to renew."""

    def renew_host(self, host: str) -> None: ...
    async def renew_all(self) -> None: ...


_listening: WeakKeyDictionary[CircuitRenewal, asyncio.AbstractEventLoop] = WeakKeyDictionary()


def new_circuit(url: str | None = None) -> None:
    """Make this worker use another circuit for a URL's host, or for every host, from now on."""
    for fetcher, loop in list(_listening.items()):
        if loop.is_closed():
            continue
        # From any thread: a step that is not an `async def` runs in one.
        if url is not None:
            loop.call_soon_threadsafe(fetcher.renew_host, host_of(url))
        else:
            asyncio.run_coroutine_threadsafe(fetcher.renew_all(), loop)


def listen(fetcher: CircuitRenewal) -> None:
    """Renew this fetcher's circuits on demand."""
    _listening[fetcher] = asyncio.get_running_loop()


def forget(fetcher: CircuitRenewal) -> None:
    """Stop renewing this fetcher's circuits."""
    _listening.pop(fetcher, None)
