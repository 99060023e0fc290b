"""Routing: ordered URL rules that set a task's priority, time to live, partition and step."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.model import Task
from shoal.core.patterns import Matcher, glob, regular
from shoal.core.text import shorten
from shoal.core.urls import canonical_with_host
from shoal.core.values import hint, read_positive_duration, read_priority, read_text

REGULAR = "re:"


class RoutedUrl(NamedTuple):
    """A URL split into the parts that patterns match."""

    url: str
    scheme: str
    host: str
    path: str
    rest: str  # path and query


class RouteDecision(NamedTuple):
    """One field, and the number of the rule that decided it, from 1."""

    rule: int
    field: str
    value: Any


class Rule:
    """Sets fields of the tasks whose URL matches: `Rule("example.com/news/*", priority=9, ttl="30m")`.

    The pattern is a glob over the whole URL in which the first slash ends the host, or "re:" and a regular
    expression that matches at its start. `host` and `path` are globs over one part. All of them must match.
    """

    def __init__(self, pattern: str = "", *, host: str = "", path: str = "", **sets: Any) -> None:
        self.conditions = {"pattern": pattern, "host": host, "path": path}
        self.sets = {field: _read_field(field, value) for field, value in sets.items()}
        if not self.sets:
            raise InvalidSetting("rule", f"sets nothing; give it one of {', '.join(_READERS)}")
        self._tests = [_TESTS[name](text) for name, text in self.conditions.items() if text]

    def matches(self, address: RoutedUrl | None) -> bool:
        """Tell whether the rule matches a URL; None is a task without a URL."""
        if address is None:
            return not self._tests
        return all(test(address) for test in self._tests)


class Routes:
    """Rules in order: each field is decided by the first rule that matches and sets it.

    The value of a rule replaces the task's own, except for the time to live: the smaller one wins.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)

    @classmethod
    def read(cls, rules: Sequence[Mapping[str, Any]], key: str = "routes") -> "Routes":
        """Read rules from a settings file: tables with match, host, path and the fields to set."""
        return cls(_read_rule(f"{key}[{number}]", given) for number, given in enumerate(rules, 1))

    def apply(self, task: Task) -> Task:
        """Return the task with the rules applied; an invalid URL is left for the queue to reject."""
        if not self.rules:
            return task
        try:
            decisions = self._decide(None if task.url is None else routed_url(task.url))
        except InvalidUrl:
            return task
        changes = {decision.field: decision.value for decision in decisions}
        if task.ttl is not None and "ttl" in changes:
            changes["ttl"] = min(task.ttl, changes["ttl"])
        return replace(task, **changes) if changes else task

    def explain(self, url: str) -> list[RouteDecision]:
        """Return which rule sets which field for a URL, in rule order; raises InvalidUrl."""
        return self._decide(routed_url(url))

    def _decide(self, address: RoutedUrl | None) -> list[RouteDecision]:
        decided: dict[str, RouteDecision] = {}
        for number, rule in enumerate(self.rules, 1):
            if not rule.sets.keys() <= decided.keys() and rule.matches(address):
                for field, value in rule.sets.items():
                    decided.setdefault(field, RouteDecision(number, field, value))
        return list(decided.values())


def routed_url(url: str) -> RoutedUrl:
    """Split a URL; raises InvalidUrl."""
    href, host = canonical_with_host(url)
    scheme, _, behind = href.partition("://")
    rest = behind[len(host) :]
    return RoutedUrl(href, scheme, host, rest.partition("?")[0], rest)


def _read_rule(key: str, given: Mapping[str, Any]) -> Rule:
    fields = dict(given)
    conditions = {name: fields.pop(name, "") for name in ("match", "host", "path")}
    for name, text in conditions.items():
        if not isinstance(text, str):
            raise InvalidSetting(f"{key}.{name}", f"must be text, got {shorten(repr(text), 60)}")
    try:
        return Rule(conditions["match"], host=conditions["host"], path=conditions["path"], **fields)
    except InvalidSetting as error:
        raise InvalidSetting(f"{key}.{error.key.replace('pattern', 'match')}", error.reason) from error


def _read_field(field: str, value: Any) -> Any:
    if field == "delivery":
        reason = (
            "is a setting of a step. Write @scraper.step(delivery='at_most_once') above a step, "
            'and set that step in the rule: step = "NAME"'
        )
        raise InvalidSetting(field, reason)
    if field not in _READERS:
        raise InvalidSetting(field, f"cannot be set by a rule. {hint(field, [*_READERS, *_TESTS])}")
    return _READERS[field](field, value)


def _read_step(key: str, value: Any) -> str:
    if not read_text(key, value):
        raise InvalidSetting(key, "must not be empty")
    return str(value)


Test = Callable[[RoutedUrl], object]


def _url_test(pattern: str) -> Test:
    if pattern.startswith(REGULAR):
        try:
            matcher = regular(pattern[len(REGULAR) :])
        except ValueError as error:
            raise InvalidSetting("pattern", f"{pattern!r} {error}") from error
        return lambda address: matcher(address.url)
    scheme, _, behind = pattern.rpartition("://")
    host, slash, rest = behind.partition("/")
    if not slash:
        raise InvalidSetting(
            "pattern",
            f"{pattern!r} is ambiguous; write host={pattern!r} or path={pattern!r}",
        )
    is_scheme, is_host, is_rest = glob(scheme.lower() or "*"), _host_matcher(host or "*"), glob(f"/{rest}")
    return lambda address: is_scheme(address.scheme) and is_host(address.host) and is_rest(address.rest)


def _host_test(pattern: str) -> Test:
    if "/" in pattern:
        raise InvalidSetting(
            "host", f"{pattern!r} contains a slash; write the host alone, such as '*.example.com'"
        )
    matcher = _host_matcher(pattern)
    return lambda address: matcher(address.host)


def _path_test(pattern: str) -> Test:
    if pattern[0] not in "/*":
        raise InvalidSetting("path", f"{pattern!r} must begin with / or *")
    matcher = glob(pattern)
    return lambda address: matcher(address.path)


def _host_matcher(pattern: str) -> Matcher:
    """Match a host with its port, or without it if the pattern has none."""
    matcher = glob(pattern.lower())
    if ":" in pattern:
        return matcher
    return lambda host: matcher(host) or (":" in host and matcher(host.rpartition(":")[0]))


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "priority": read_priority,
    "ttl": read_positive_duration,
    "partition": read_text,
    "step": _read_step,
}
_TESTS: dict[str, Callable[[str], Test]] = {"pattern": _url_test, "host": _host_test, "path": _path_test}
