"""The private hosts that a user allows by typing or declaring their URLs."""

from collections.abc import Iterable, Iterator
from ipaddress import ip_address

from shoal.core.errors import InvalidUrl
from shoal.core.urls import host_of


def allowed_private_hosts(urls: Iterable[str]) -> Iterator[str]:
    """Yield the hosts of typed URLs that can only be private: typing one allows it."""
    for url in urls:
        try:
            host = host_of(url)
        except InvalidUrl:
            continue  # rejected and reported when it is enqueued
        has_port = host.rpartition(":")[2].isdecimal()
        name = host.rpartition(":")[0] if has_port else host
        if "." not in name or name.endswith(".localhost") or _is_address(name):
            # With its port always: a name alone would allow all its ports.
            yield host if has_port else f"{host}:{443 if url.lower().startswith('https:') else 80}"


def _is_address(name: str) -> bool:
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True
