"""The setting `retry`: the delay between attempts, and the rules per error class and status."""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import partial
from types import MappingProxyType
from typing import Any

from shoal.core.errors import InvalidSetting, NotNow, ShoalError, SkipTask
from shoal.core.model import NOTHING
from shoal.core.retry_policy import NO_RULE, PERMANENT, RetryPolicy, RetryRule
from shoal.core.text import shorten
from shoal.core.values import hint, read_flag, read_positive_duration, read_whole

MAX_ATTEMPTS = 101  # the first attempt plus the maximum number of retries
MAX_FACTOR = 100.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RetrySettings:
    """The general retry rule, and the rules of error classes by name and of statuses."""

    general: RetryRule = NO_RULE
    rules: Mapping[str, RetryRule] = field(default_factory=lambda: NOTHING)

    def policy(self, attempts: int) -> RetryPolicy:
        """Return the policy of a step with this many attempts, unless a rule overrides it."""
        return RetryPolicy(max_attempts=attempts, rules=self.rules).under(self.general)

    def check_classes(self) -> None:
        """Raise InvalidSetting for a name that is not an error class; the user's code must be loaded."""
        if not self.rules:
            return
        known = {kind.__name__: kind for kind in _error_classes(Exception)}
        for name in self.rules:
            if not _STATUS.fullmatch(name):
                _check_class(name, known)


NO_RETRY_SETTINGS = RetrySettings()


def read_retry(key: str, value: Any) -> RetrySettings:
    """Read delays and rules: {"delay": "60s", "HttpStatus": {"attempts": 5}}; None is the default."""
    if value is None:
        return NO_RETRY_SETTINGS
    if not isinstance(value, Mapping):
        example = '{"delay": "60s", "HttpStatus": {"attempts": 5}}'
        raise InvalidSetting(key, f"must be a table such as {example}, got {shorten(repr(value), 60)}")
    general: dict[str, Any] = {}
    rules: dict[str, RetryRule] = {}
    for name, given in value.items():
        if isinstance(name, type) and issubclass(name, Exception):
            rules[name.__name__] = _read_rule(f"{key}.{name.__name__}", given)
        elif isinstance(name, str) and (
            name in _READERS or not (isinstance(given, Mapping) or _is_kind(name))
        ):
            general[name] = given
        elif isinstance(name, str | int):
            rules[_rule_name(key, str(name))] = _read_rule(f"{key}.{name}", given)
        else:
            raise InvalidSetting(key, f"must name error classes, got {shorten(repr(name), 60)}")
    if "attempts" in general:
        raise InvalidSetting(f"{key}.attempts", "is for one error class; for all errors, set retries")
    return RetrySettings(general=_read_rule(key, general), rules=MappingProxyType(rules))


def _is_kind(name: str) -> bool:
    """Tell whether a word is meant as a status or an error class, rather than as a part of the rule."""
    return name in _CLASSES or name[:1].isdigit() or name[:1].isupper()


def _rule_name(key: str, name: str) -> str:
    """Return the status or the class that a key stands for; raises InvalidSetting for another status."""
    if name[:1].isdigit() and not _STATUS.fullmatch(name):
        raise InvalidSetting(f"{key}.{name}", "is no error status; write one such as 429, or 4xx or 5xx")
    return _CLASSES.get(name, name)


def _read_rule(key: str, given: Any) -> RetryRule:
    if not isinstance(given, Mapping):
        # A number alone could mean attempts or retries.
        raise InvalidSetting(key, f'must be a table; write {{"attempts": 5}}, got {shorten(repr(given), 60)}')
    for name in given:
        if name not in _READERS:
            near = f"Write {_SYNONYMS[name]!r}." if name in _SYNONYMS else hint(str(name), _READERS)
            raise InvalidSetting(f"{key}.{name}", f"is not known. {near}")
    rule = RetryRule(**{name: _READERS[name](f"{key}.{name}", value) for name, value in given.items()})
    if rule.cap is not None and rule.delay is not None and rule.cap < rule.delay:
        raise InvalidSetting(f"{key}.cap", "must be at least as long as the delay")
    return rule


def _read_factor(key: str, value: Any) -> float:
    try:
        found = float(value) if not isinstance(value, bool) else 0.0
    except (TypeError, ValueError):
        found = 0.0
    if not 1.0 <= found <= MAX_FACTOR:
        raise InvalidSetting(
            key, f"must be a number from 1 to {MAX_FACTOR:g}, got {shorten(repr(value), 60)}"
        )
    return found


def _read_jitter(key: str, value: Any) -> float:
    if isinstance(value, int | float) and 0.0 <= value <= 1.0:
        return float(value)
    try:
        return float(read_flag(key, value))
    except InvalidSetting:
        reason = "must be True, False, or the random share of a delay from 0.0 to 1.0"
        raise InvalidSetting(key, f"{reason}, got {shorten(repr(value), 60)}") from None


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "attempts": partial(read_whole, least=1, most=MAX_ATTEMPTS),
    "delay": read_positive_duration,
    "factor": _read_factor,
    "cap": read_positive_duration,
    "jitter": _read_jitter,
}


# Words for the usual error classes.
_CLASSES = {
    "timeout": "FetchTimeout",
    "connection": "ConnectFailed",
    "dns": "DnsFailed",
    "tls": "TlsFailed",
    "blocked": "Blocked",
}
_SYNONYMS = {"first": "delay", "base": "delay", "wait": "delay", "max": "cap", "retries": "attempts"}
_STATUS = re.compile("[45]([0-9]{2}|xx)")


def _error_classes(kind: type[Exception]) -> Iterator[type[Exception]]:
    yield kind
    for subclass in type.__subclasses__(kind):
        yield from _error_classes(subclass)


def _check_class(name: str, known: Mapping[str, type[Exception]]) -> None:
    kind = known.get(name)
    if kind is None:
        # Shoal's own errors first: other libraries define hundreds.
        own = [found.__name__ for found in _error_classes(ShoalError)]
        near = get_close_matches(name, own, n=1) or get_close_matches(name, known, n=1)
        advice = f"Did you mean {near[0]!r}?" if near else "Import it at the top of the scraper's file"
        raise InvalidSetting(f"retry.{name}", f"is not an error class. {advice}")
    if issubclass(kind, (*PERMANENT, SkipTask)):
        raise InvalidSetting(f"retry.{name}", "is never retried: another attempt fails the same way")
    if issubclass(kind, NotNow):
        raise InvalidSetting(f"retry.{name}", "uses no attempt, and sets the time of the next one itself")
