"""The site that a host belongs to: the name that someone registered, and all below it."""

from collections.abc import Callable
from functools import lru_cache

# Where a country's registry sells names one level further down.
_REGISTRIES = "ac co com edu go gob gov mil ne net nom or org"
# Where one owner hands out names to strangers.
_LANDLORDS = """
    appspot.com azurewebsites.net blogspot.com cloudfront.net github.io gitlab.io herokuapp.com myshopify.com
    netlify.app pages.dev readthedocs.io vercel.app web.app wordpress.com workers.dev
"""
_SECOND_LEVEL, _SHARED = frozenset(_REGISTRIES.split()), frozenset(_LANDLORDS.split())


def guessed_site(host: str) -> str:
    """Return the registered name of a host by a rule of thumb, good for the common suffixes only."""
    labels = host.split(".")
    if len(labels) <= 2 or labels[-1].isdigit() or "[" in host:
        return host
    pair = ".".join(labels[-2:])
    national = len(labels[-1]) == 2 and labels[-2] in _SECOND_LEVEL
    return ".".join(labels[-3:]) if national or pair in _SHARED else pair


def _registered() -> Callable[[str], str]:
    # The parser ships the Public Suffix List, but not yet under a public name.
    try:
        from turbohtml._html import _registrable_domain
    except ImportError:
        return guessed_site
    return _registrable_domain


_registrable = _registered()


@lru_cache(maxsize=4096)
def site_of(host: str) -> str:
    """Return the site of a host as `urls.host_of` gives it: `example.co.uk` for `shop.example.co.uk:8080`."""
    name = host if host.endswith("]") else host.rpartition(":")[0] or host
    return _registrable(name)
