"""Hosts that an operator pauses or slows."""

from datetime import timedelta

from shoal.core.model import ZERO
from shoal.queue.sqlite.moment import micros
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json


def pause(store: Store, name: str, duration: timedelta) -> None:
    """Ask a host nothing for a while; zero ends a pause."""
    host = store.value("host_know", name=name)
    if duration == ZERO:
        store.tell("host_unpause", host=host)
    else:
        store.many("host_treat", [(host, store.now() + micros(duration), None)])
    store.tell("arm", lanes="[]", hosts=as_json([host]))


def slow(store: Store, name: str, delay: timedelta) -> None:
    """Set a host's own delay; zero lifts it."""
    host = store.value("host_know", name=name)
    store.tell("host_slow", host=host, delay=micros(delay))
    store.tell("arm", lanes="[]", hosts=as_json([host]))
