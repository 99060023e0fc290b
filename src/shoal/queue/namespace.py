"""The namespace in a queue's address: several separate queues on one server."""

import re
from urllib.parse import unquote

from shoal.core.errors import InvalidSetting
from shoal.core.redact import shown_address
from shoal.queue.addresses import addresses_in, join_addresses

OPTION = "namespace"
_NAME = re.compile("[a-z0-9_-]{1,32}")
_IN_URL = re.compile(rf"[?&]{OPTION}=([a-z0-9_-]{{1,32}})(?=[&#]|$)")


def take_namespace(query: str) -> tuple[str, str]:
    """Return the query of an address without its namespace, and the namespace, "" if it has none.

    Raises InvalidSetting for a namespace that cannot be used on every backend.
    """
    options = query.split("&")
    names = [unquote(option.partition("=")[2]) for option in options if _is_namespace(option)]
    if not names:
        return query, ""
    if len(names) > 1:
        raise InvalidSetting("queue", f"has more than one namespace: {', '.join(map(repr, names))}")
    if not _NAME.fullmatch(names[0]):
        raise InvalidSetting(
            "queue",
            f"has a namespace that is not 1 to 32 of a-z, 0-9, '_' and '-': ?{OPTION}={names[0][:40]}",
        )
    return "&".join(option for option in options if not _is_namespace(option)), names[0]


def with_namespace(address: str, namespace: str) -> str:
    """Return an address with a namespace; of a queue on several servers, on each of them."""
    if not namespace:
        return address
    return join_addresses(_with_option(one, f"{OPTION}={namespace}") for one in addresses_in(address))


def namespace_in(url: str) -> str:
    """Return the namespace in an address, "" if it has none."""
    found = _IN_URL.findall(url)
    return found[-1] if found else ""


def shown_queue(url: str) -> str:
    """Return a queue's address to display: with its namespace, without a password."""
    return join_addresses(map(_shown, addresses_in(url)))


def _shown(url: str) -> str:
    shown, namespace = shown_address(url), namespace_in(url)
    # Between the user of a broker and that of its Redis it was redacted with the passwords.
    return shown if namespace_in(shown) == namespace else with_namespace(shown, namespace)


def _with_option(address: str, option: str) -> str:
    place, mark, name = address.partition("#")  # the name of a server
    return f"{place}{'&' if '?' in place else '?'}{option}{mark}{name}"


def _is_namespace(option: str) -> bool:
    return option.partition("=")[0] == OPTION
