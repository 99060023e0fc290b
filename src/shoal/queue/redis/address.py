"""A Redis address: the part for the driver, and the part to display."""

from urllib.parse import parse_qsl, urlencode, urlsplit

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.redact import shown_address
from shoal.queue.address import ONE_SERVER, take_namespace, with_namespace

FILE_OPTIONS = ("ssl_ca_certs", "ssl_certfile", "ssl_keyfile")
TLS_OPTIONS = (*FILE_OPTIONS, "ssl_ca_path", "ssl_check_hostname", "ssl_cert_reqs", "ssl_password")


class RedisAddress(msgspec.Struct, frozen=True):
    """The address of the server; `shown` has no password."""

    url: str
    shown: str
    cluster: bool
    namespace: str = ""


def read(url: str) -> RedisAddress:
    """Parse an address; raises InvalidSetting."""
    parts = urlsplit(url)
    query, namespace = take_namespace(parts.query)
    options = dict(parse_qsl(query, keep_blank_values=True))
    cluster = options.pop("cluster", "false").lower()
    shown = _shown(url, namespace, cluster == "true")
    if parts.scheme not in ("redis", "rediss") or not parts.hostname:
        raise InvalidSetting("queue", f"names no server: {shown!r}. Write redis://localhost:6379/0")
    if "," in parts.netloc.rpartition("@")[2]:
        raise InvalidSetting("queue", ONE_SERVER)
    if cluster not in ("true", "false"):
        raise InvalidSetting("queue", f"accepts ?cluster=true or ?cluster=false: {shown!r}")
    odd = [name for name in options if name not in TLS_OPTIONS]
    if odd:
        raise InvalidSetting("queue", f"has an unknown option {odd[0]!r}: {shown!r}")
    if options and parts.scheme == "redis":
        raise InvalidSetting(
            "queue", f"has options of TLS: {shown!r}. Write rediss:// for an encrypted connection"
        )
    if cluster == "true" and parts.path.strip("/") not in ("", "0"):
        raise InvalidSetting("queue", f"names a database, and a cluster has only one: {shown!r}")
    bare = parts._replace(query=urlencode(options)).geturl()
    return RedisAddress(bare, shown, cluster == "true", namespace)


def _shown(url: str, namespace: str, is_cluster: bool) -> str:
    """Return the address without the options of its connection, one of which may be a password."""
    shown = shown_address(url).partition("?")[0] + ("?cluster=true" if is_cluster else "")
    return with_namespace(shown, namespace)
