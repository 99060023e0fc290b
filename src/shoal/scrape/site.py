"""The site of a host: its registrable domain by the Public Suffix List."""

from functools import cache, lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from publicsuffixlist import PublicSuffixList


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the site of a host as `urls.host_of` gives it: `example.co.uk` for `shop.example.co.uk:8080`."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    # IP addresses and names without a public suffix, such as localhost, are sites of their own. So is a name
    # with a trailing dot: the package would drop the dot.
    return name if name.endswith(".") else _suffix_list().privatesuffix(name) or name


@cache
def _suffix_list() -> "PublicSuffixList":
    # Loaded on first use: import and list take about 90 ms, and only scope="site" needs them.
    from publicsuffixlist import PublicSuffixList

    return PublicSuffixList(accept_unknown=False)
