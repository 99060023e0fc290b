"""A RabbitMQ address: the nodes of the broker, and the Redis that holds its state."""

import re
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.redact import shown_address
from shoal.queue.address import take_namespace, with_namespace
from shoal.queue.redis import address as redis_address

HEARTBEAT_INTERVAL_SECONDS = 15  # after twice that the broker requeues the bundle of a frozen worker
EXAMPLE = "amqp://user:password@localhost/?state=redis://localhost:6379/0"
_STATE = re.compile("(?:^|&)state=([^&]*)")
FILE_OPTIONS = ("cafile", "certfile", "keyfile")
TLS_OPTIONS = (*FILE_OPTIONS, "capath", "cadata", "no_verify_ssl")


class RabbitAddress(msgspec.Struct, frozen=True):
    """The addresses of both servers: a URL for each node of the broker; `shown` has no password."""

    urls: tuple[str, ...]
    shown: str
    state: str
    namespace: str = ""

    @property
    def prefix(self) -> str:
        """The prefix of names in the broker in this namespace."""
        return f"{self.namespace}." if self.namespace else ""


def read(url: str) -> RabbitAddress:
    """Parse an address; raises InvalidSetting."""
    parts = urlsplit(url)
    query, namespace = take_namespace(parts.query)
    options = dict(parse_qsl(query, keep_blank_values=True))
    state = _state(options.pop("state", ""), query)
    shown = with_namespace(_shown(url), namespace)
    user, at, names = parts.netloc.rpartition("@")
    nodes = names.split(",")
    if parts.scheme not in ("amqp", "amqps") or not all(_has_host(node) for node in nodes):
        raise InvalidSetting("queue", f"names no server: {shown!r}. Write {EXAMPLE}")
    if not state:
        raise InvalidSetting(
            "queue", f"names no Redis, which RabbitMQ needs beside it: {shown!r}. Write {EXAMPLE}"
        )
    odd = [name for name in options if name not in TLS_OPTIONS]
    if odd:
        raise InvalidSetting("queue", f"has an unknown option {odd[0]!r}: {shown!r}")
    state_address = redis_address.read(state)
    if state_address.namespace:
        raise InvalidSetting(
            "queue",
            "has its namespace in the address of its Redis. "
            f"Write &namespace={state_address.namespace} after it",
        )
    if state_address.cluster:
        raise InvalidSetting(
            "queue", "keeps its state in one Redis, not in a cluster. Write redis://host:6379/0"
        )
    bare = parts._replace(query=urlencode({**options, "heartbeat": HEARTBEAT_INTERVAL_SECONDS}))
    urls = tuple(bare._replace(netloc=f"{user}{at}{node}").geturl() for node in nodes)
    return RabbitAddress(urls, shown, with_namespace(state, namespace), namespace)


def _has_host(node: str) -> bool:
    """Return whether this is a host, with or without a port."""
    try:
        parts = urlsplit(f"amqp://{node}")
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _state(state: str, query: str) -> str:
    """Return the address of the Redis, whether it is percent-encoded as a whole or not."""
    typed = _STATE.search(query)
    if not typed or "://" not in typed[1]:
        return state
    # In a plain address, escapes in the password belong to it; those after the host to the Redis query.
    user, at, place = typed[1].rpartition("@")
    return f"{user}{at}{unquote(place)}"


def _shown(url: str) -> str:
    # What follows is another address, with a password of its own.
    return shown_address(re.split("[?&]state=", url)[0]).partition("?")[0]
