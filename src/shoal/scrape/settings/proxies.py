"""The setting `proxies`: the proxies to fetch through and how to use them."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting
from shoal.core.proxies import EXAMPLE, STRATEGIES, ProxyRules, read_file, read_proxy_list
from shoal.core.values import hint, read_choice, read_flag, read_positive_duration, read_whole

_OFF = ("off", "none", "false", "no")
_WORDS = (
    *("from", "strategy", "share", "rotate", "threshold", "duration", "timeout", "direct"),
    *("per_exit", "refresh"),
)
_FORMS = "a file, a list of addresses, or a function that returns one"


def read_proxies(key: str, value: Any) -> ProxyRules | None:
    """Read proxies: "proxies.txt strategy=fastest", a list, a function, or a mapping of source and rules."""
    if value is None or value is False or (isinstance(value, str) and value.strip().lower() in _OFF):
        return None
    if isinstance(value, ProxyRules):
        return value
    if isinstance(value, str):
        return _parse_text(key, value)
    return _from_mapping(key, value if isinstance(value, Mapping) else {"from": value})


def _parse_text(key: str, text: str) -> ProxyRules:
    if Path(text).is_file():
        return _from_mapping(key, {"from": text})
    source, *more = text.split() or [""]
    given = {}
    for word in more:
        name, equals, value = word.partition("=")
        if not equals:
            # The value is not shown: it may be a URL with a password.
            raise InvalidSetting(key, "takes a file and rules, such as 'proxies.txt strategy=fastest'")
        given[name] = value
    return _from_mapping(key, {"from": source, **given})


def _from_mapping(key: str, given: Mapping[str, Any]) -> ProxyRules:
    for name in given:
        if name not in _WORDS:
            raise InvalidSetting(key, f"has no {str(name)!r}. {hint(str(name), _WORDS)}")
    if not given.get("from"):
        raise InvalidSetting(key, f"needs 'from': {_FORMS}")
    rules: dict[str, Any] = _source(key, given["from"])
    default = ProxyRules()
    for name, read in {
        "strategy": lambda key, value: read_choice(key, str(value).replace("-", "_"), STRATEGIES),
        "share": lambda key, value: read_choice(key, value, ("all", "slice")),
        "rotate": lambda key, value: read_choice(key, value, ("request", "task")),
        "threshold": lambda key, value: read_whole(key, value, least=1, most=1_000_000),
        "duration": read_positive_duration,
        "timeout": lambda key, value: None if value is None else read_positive_duration(key, value),
        "direct": read_flag,
        "per_exit": read_flag,
        "refresh": read_positive_duration,
    }.items():
        rules[name] = read(f"{key}.{name}", given.get(name, getattr(default, name)))
    if rules["per_exit"]:
        if "provider" in rules:
            raise InvalidSetting(
                f"{key}.per_exit", "needs a file or a list, so that the proxies can be counted"
            )
        # A worker can enforce the gap of a proxy only if no other worker uses it.
        rules["share"] = "slice"
    return ProxyRules(**rules)


def count_exits(rules: ProxyRules | None) -> int:
    """Return the number of exits that each have their own rate limit per host."""
    if rules is None or not rules.per_exit:
        return 1
    return len(read_file(rules.file) if rules.file else read_proxy_list(rules.listed, what="entry"))


def _source(key: str, value: Any) -> dict[str, Any]:
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
