"""The address of a queue on several servers: their addresses with spaces between them."""

import re
from collections.abc import Iterable

MAX_SERVERS = 64  # the number of an item includes that of its server

# A space in the path of a SQLite file does not begin another address.
_BETWEEN = re.compile(r"[\s]+(?=[A-Za-z][A-Za-z0-9+.-]*://)")


def addresses_in(queue: str) -> list[str]:
    """Return the addresses in the text that names a queue: one, or those of several servers."""
    return [address for address in _BETWEEN.split(queue.strip()) if address]


def join_addresses(addresses: Iterable[str]) -> str:
    """Return the text that names a queue on these servers."""
    return " ".join(addresses)
