"""The names of a queue's servers, which decide which hosts each of them owns."""

from collections.abc import Iterable

from shoal.core.errors import InvalidSetting
from shoal.core.redact import bare_url
from shoal.queue.addresses import MAX_SERVERS
from shoal.queue.namespace import namespace_in


def server_names(addresses: Iterable[str]) -> dict[str, str]:
    """Return the addresses by the names of their servers, without the names; raises InvalidSetting.

    The name decides which hosts a server owns. It is what follows `#`, else the address without its user and
    options, so that a new password changes nothing.
    """
    found: dict[str, str] = {}
    for given in addresses:
        address, _, name = given.rpartition("#") if "#" in given else (given, "", "")
        name = name or _name_in(address)
        if name in found:
            advice = "Each server is named once; name them apart with #a and #b"
            raise InvalidSetting("queue", f"has two servers called {name!r}. {advice}")
        found[name] = address
    if len(found) > MAX_SERVERS:
        raise InvalidSetting("queue", f"has {len(found)} servers, the limit is {MAX_SERVERS}")
    return found


def _name_in(address: str) -> str:
    place, namespace = bare_url(address).partition("://")[2], namespace_in(address)
    return f"{place}?{namespace}" if namespace else place
