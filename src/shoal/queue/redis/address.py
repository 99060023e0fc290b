"""A Redis address: what the driver needs of it, and what may be shown."""

from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urlsplit

from shoal.core.errors import InvalidSetting
from shoal.core.redact import shown_address
from shoal.queue.namespace import take_namespace


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is; `shown` is without the password."""

    url: str
    shown: str
    cluster: bool
    namespace: str = ""


def read(url: str) -> Address:
    """Take an address apart; raises InvalidSetting."""
    parts = urlsplit(url)
    query, namespace = take_namespace(parts.query)
    options = dict(parse_qsl(query, keep_blank_values=True))
    cluster = options.pop("cluster", "false").lower()
    shown = shown_address(url)
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise InvalidSetting("queue", f"names no server: {shown!r}. Write redis://localhost:6379/0")
    if cluster not in ("true", "false"):
        raise InvalidSetting("queue", f"may say ?cluster=true or nothing: {shown!r}")
    odd = [name for name in options if not name.startswith("ssl_")]
    if odd:
        raise InvalidSetting("queue", f"has an unknown option {odd[0]!r}: {shown!r}")
    if cluster == "true" and parts.path.strip("/") not in ("", "0"):
        raise InvalidSetting("queue", f"names a database, and a cluster has only one: {shown!r}")
    bare = parts._replace(query=urlencode(options)).geturl()
    return Address(bare, shown, cluster == "true", namespace)
