"""The settings `proxies` and `tor`: what requests are sent through."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, Literal

from shoal.core.errors import InvalidSetting
from shoal.core.proxies import EXAMPLE, STRATEGIES, ProxyRules, read_file, read_proxy_list
from shoal.core.text import shorten
from shoal.core.values import read_choice, read_flag, read_positive_duration, read_whole
from shoal.scrape.settings.declaration import CompactSetting

# A rule starts with a name; a proxy or a file may contain "=" later on.
_RULE = re.compile(r"[a-z_]+=")
_BARE_ADDRESS = re.compile(r"([a-z0-9]+://)?([^\s@:/]+|\[[0-9a-f:.]+\])(:[0-9]+)?/?", re.IGNORECASE)
_FORMS = "a file, a list of addresses, or a function that returns one"


def read_proxies(key: str, value: Any) -> ProxyRules | None:
    """Read proxies: "proxies.txt strategy=fastest", a list, a function, or a mapping of source and rules."""
    # The name of a file may contain spaces.
    is_file = isinstance(value, str) and Path(value).is_file()
    return _PROXIES.read(key, {"from": value} if is_file else value)


def read_site_proxies(key: str, value: Any) -> ProxyRules | Literal[False]:
    """Read the proxies of a site; False, or "off", for a direct connection."""
    rules = None if value is False else read_proxies(key, value)
    if rules and rules.per_exit:
        raise InvalidSetting(
            f"{key}.per_exit", "cannot be set for a site: the queue has one rate per host for all its proxies"
        )
    return rules or False


def has_password(value: Any) -> bool:
    """Tell whether a value of the setting has an address with a user or a password."""
    source = value.get("from") if isinstance(value, Mapping) else value
    if isinstance(source, str):
        words = [] if Path(source).is_file() else source.split()[:1]
        source = [word for word in words if "://" in word]
    addresses = source if isinstance(source, (list, tuple)) else ()
    return not all(isinstance(one, str) and _BARE_ADDRESS.fullmatch(one.strip()) for one in addresses)


def count_exits(rules: ProxyRules | None) -> int:
    """Return the number of exits that each have their own rate limit per host."""
    if rules is None or not rules.per_exit:
        return 1
    return len(read_file(rules.file) if rules.file else read_proxy_list(rules.listed, what="entry"))


def _read_source(key: str, value: Any) -> dict[str, Any]:
    if callable(value):
        return {"provider": value}
    if isinstance(value, str) and "://" in value:
        value = [value]
    if isinstance(value, (str, Path)):
        path = Path(value)
        if not path.exists() and (":" in path.name or "@" in path.name):
            # The value is not shown: it may hold a password.
            raise InvalidSetting(key, f"is not a file, and a proxy URL needs a scheme; {EXAMPLE}")
        read_file(path)  # raises if it cannot be parsed
        return {"file": path}
    if isinstance(value, Sequence) and all(isinstance(one, str) for one in value):
        read_proxy_list(value, what="entry")
        return {"listed": tuple(value)}
    raise InvalidSetting(key, f"must be {_FORMS}")


def _read_strategy(key: str, value: Any) -> str:
    return read_choice(key, str(value).replace("-", "_"), STRATEGIES)


def _read_timeout(key: str, value: Any) -> timedelta | None:
    return None if value is None else read_positive_duration(key, value)


def _build_proxies(key: str, fields: dict[str, Any]) -> ProxyRules:
    if "from" not in fields:
        raise InvalidSetting(key, f"needs 'from': {_FORMS}")
    rules = fields.pop("from") | fields
    if rules.get("per_exit"):
        if "provider" in rules:
            raise InvalidSetting(
                f"{key}.per_exit", "needs a file or a list, so that the proxies can be counted"
            )
        # A worker can enforce the gap of a proxy only if no other worker uses it.
        rules["share"] = "slice"
    return ProxyRules(**rules)


_PROXIES = CompactSetting(
    kind=ProxyRules,
    fields={
        "from": _read_source,
        "strategy": _read_strategy,
        "share": partial(read_choice, known=("all", "slice")),
        "rotate": partial(read_choice, known=("request", "task")),
        "threshold": partial(read_whole, least=1, most=1_000_000),
        "duration": read_positive_duration,
        "timeout": _read_timeout,
        "direct": read_flag,
        "per_exit": read_flag,
        "refresh": read_positive_duration,
    },
    example="a file and rules, such as 'proxies.txt strategy=fastest'",
    main="from",
    name_of=lambda word: None if _RULE.match(word) else "from",
    build=_build_proxies,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TorSettings:
    """How a worker uses its Tor process."""

    renew: int | None = None  # requests to a host per circuit; None: until a block or a failure
    torrc: Path | None = None  # a file with additional Tor configuration, such as bridges


def _read_torrc(key: str, value: Any) -> Path:
    path = Path(value) if isinstance(value, (str, Path)) else None
    if path is None or not path.is_file():
        raise InvalidSetting(key, f"must be a Tor configuration file, got {shorten(repr(value), 60)}")
    return path.absolute()


read_tor = CompactSetting(
    kind=TorSettings,
    fields={"renew": partial(read_whole, least=1), "torrc": _read_torrc},
    example="True, or 'renew=50' for a new circuit after every 50 requests to a host",
).read
