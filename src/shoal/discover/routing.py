"""Routing: ordered rules by URL that set a task's priority, time to live, partition and step."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from shoal.core.errors import InvalidSetting, InvalidUrl, shorten
from shoal.core.model import Task
from shoal.core.patterns import Matcher, glob, regular
from shoal.core.urls import canonical_with_host
from shoal.core.values import hint, read_positive_duration, read_priority, read_text

REGULAR = "re:"


class Address(NamedTuple):
    """A URL in the parts that patterns speak of."""

    url: str
    scheme: str
    host: str
    path: str
    rest: str  # path and query


class Decision(NamedTuple):
    """One field, and the number of the rule that decided it, from 1."""

    rule: int
    field: str
    value: Any


class Rule:
    """Sets fields of the tasks whose URL matches: `Rule("example.com/news/*", priority=9, ttl="30m")`.

    The pattern is a glob over the whole URL in which the first slash ends the host, or "re:" and a regular
    expression for its beginning. `host` and `path` are globs over one part. All that are given must match.
    """

    def __init__(self, pattern: str = "", *, host: str = "", path: str = "", **sets: Any) -> None:
        self.conditions = {"pattern": pattern, "host": host, "path": path}
        self.sets = {field: _read(field, value) for field, value in sets.items()}
        if not self.sets:
            raise InvalidSetting("rule", f"sets nothing; give it one of {', '.join(_READERS)}")
        self._tests = [_TESTS[name](text) for name, text in self.conditions.items() if text]

    def matches(self, address: Address | None) -> bool:
        """Tell whether the rule speaks of an address; None is that of a task without a URL."""
        if address is None:
            return not self._tests
        return all(test(address) for test in self._tests)

    def __repr__(self) -> str:
        given = {name: text for name, text in self.conditions.items() if text} | self.sets
        return f"Rule({', '.join(f'{name}={value!r}' for name, value in given.items())})"


class Routes:
    """Rules in order: each field is decided by the first rule that matches and sets it.

    A decided field replaces what the task had, but for the time to live, of which the smaller one wins.
    """

    def __init__(self, rules: Iterable[Rule] = ()) -> None:
        self.rules = tuple(rules)

    @classmethod
    def read(cls, rules: Sequence[Mapping[str, Any]], key: str = "routes") -> "Routes":
        """Read rules from a settings file: tables with match, host, path and what they set."""
        return cls(_rule(f"{key}[{number}]", given) for number, given in enumerate(rules, 1))

    def apply(self, task: Task) -> Task:
        """Return the task as the rules want it; a URL that is none is left for the queue to refuse."""
        if not self.rules:
            return task
        try:
            decisions = self._decide(None if task.url is None else address_of(task.url))
        except InvalidUrl:
            return task
        changes = {decision.field: decision.value for decision in decisions}
        if task.ttl is not None and "ttl" in changes:
            changes["ttl"] = min(task.ttl, changes["ttl"])
        return replace(task, **changes) if changes else task

    def explain(self, url: str) -> list[Decision]:
        """Return which rule decides what for a URL, in the order of the rules; raises InvalidUrl."""
        return self._decide(address_of(url))

    def _decide(self, address: Address | None) -> list[Decision]:
        decided: dict[str, Decision] = {}
        for number, rule in enumerate(self.rules, 1):
            if not rule.sets.keys() <= decided.keys() and rule.matches(address):
                for field, value in rule.sets.items():
                    decided.setdefault(field, Decision(number, field, value))
        return list(decided.values())


def address_of(url: str) -> Address:
    """Take a URL apart; raises InvalidUrl."""
    href, host = canonical_with_host(url)
    scheme, _, behind = href.partition("://")
    rest = behind[len(host) :]
    return Address(href, scheme, host, rest.partition("?")[0], rest)


def _rule(key: str, given: Mapping[str, Any]) -> Rule:
    fields = dict(given)
    conditions = {name: fields.pop(name, "") for name in ("match", "host", "path")}
    for name, text in conditions.items():
        if not isinstance(text, str):
            raise InvalidSetting(f"{key}.{name}", f"must be text, got {shorten(repr(text), 60)}")
    try:
        return Rule(conditions["match"], host=conditions["host"], path=conditions["path"], **fields)
    except InvalidSetting as error:
        raise InvalidSetting(f"{key}.{error.key.replace('pattern', 'match')}", error.reason) from error


def _read(field: str, value: Any) -> Any:
    if field == "delivery":
        reason = (
            "is a setting of a step. Write @scraper.step(delivery='at_most_once') above a step of yours, "
            'and lead the rule to it: step = "NAME"'
        )
        raise InvalidSetting(field, reason)
    if field not in _READERS:
        raise InvalidSetting(field, f"cannot be set by a rule. {hint(field, [*_READERS, *_TESTS])}")
    return _READERS[field](field, value)


def _step(key: str, value: Any) -> str:
    if not read_text(key, value):
        raise InvalidSetting(key, "must not be empty")
    return str(value)


Test = Callable[[Address], object]


def _whole(pattern: str) -> Test:
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
            f"{pattern!r} does not say which part it means; write host={pattern!r} or path={pattern!r}",
        )
    is_scheme, is_host, is_rest = glob(scheme.lower() or "*"), _host_matcher(host or "*"), glob(f"/{rest}")
    return lambda address: is_scheme(address.scheme) and is_host(address.host) and is_rest(address.rest)


def _host(pattern: str) -> Test:
    if "/" in pattern:
        raise InvalidSetting(
            "host", f"{pattern!r} holds a slash; write the name alone, such as '*.example.com'"
        )
    matcher = _host_matcher(pattern)
    return lambda address: matcher(address.host)


def _path(pattern: str) -> Test:
    if pattern[0] not in "/*":
        raise InvalidSetting("path", f"{pattern!r} must begin with / or *")
    matcher = glob(pattern)
    return lambda address: matcher(address.path)


def _host_matcher(pattern: str) -> Matcher:
    """Match a host with its port, or without it where the pattern has none."""
    matcher = glob(pattern.lower())
    if ":" in pattern:
        return matcher
    return lambda host: matcher(host) or (":" in host and matcher(host.rpartition(":")[0]))


_READERS: dict[str, Callable[[str, Any], Any]] = {
    "priority": read_priority,
    "ttl": read_positive_duration,
    "partition": read_text,
    "step": _step,
}
_TESTS: dict[str, Callable[[str], Test]] = {"pattern": _whole, "host": _host, "path": _path}
