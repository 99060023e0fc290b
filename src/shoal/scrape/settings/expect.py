"""What a scraper expects of the items of its runs: the setting `expect`, a rule in a line of text."""

import re
from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.patterns import searched
from shoal.core.text import shorten
from shoal.scrape.settings.declaration import OFF, ON

Kind = Literal["items", "within", "filled", "unique", "range", "pattern", "type", "share"]
TYPES = ("text", "number", "whole", "bool", "list", "object")
SHARES = ("rejects", "dead", "blocked", "without items")
STRICT, NO_DEFAULTS, WARN = "strict", "no defaults", "warn "
EXAMPLES = (
    "items >= 1000",
    "items within 20%",
    "price filled >= 95%",
    "price is number",
    "price in 1..5000",
    "sku matches [A-Z]{3}-[0-9]+",
    "sku unique",
    "dead <= 1%",
    "book without items <= 5%",
)

LIMITS = ("number", "percent", "least", "most")

_NUMBER = r"-?\d+(?:\.\d+)?"
_NAMES = r"(?P<names>.+?)"
_FORMS: Mapping[str, re.Pattern[str]] = {
    "items": re.compile(r"(?:(?P<step>\w+) )?items (?P<sign>>=|<=) (?P<number>[\d_]+)"),
    "within": re.compile(r"(?:(?P<step>\w+) )?items within (?P<percent>\d+(?:\.\d+)?)%"),
    "share": re.compile(rf"(?:(?P<step>\w+) )?(?P<what>{'|'.join(SHARES)}) <= (?P<percent>\d+(?:\.\d+)?)%"),
    "pattern": re.compile(rf"{_NAMES} matches (?P<pattern>.+)"),
    "filled": re.compile(rf"{_NAMES} filled >= (?P<percent>\d+(?:\.\d+)?)%"),
    "unique": re.compile(rf"{_NAMES} unique"),
    "range": re.compile(rf"{_NAMES} in (?P<least>{_NUMBER})?\.\.(?P<most>{_NUMBER})?"),
    "type": re.compile(rf"{_NAMES} is (?P<type>{'|'.join(TYPES)})"),
}


class Expectation(msgspec.Struct, frozen=True, kw_only=True):
    """One rule about the items of a run."""

    text: str  # as it was written
    kind: Kind
    strict: bool = True  # else it is a warning
    step: str | None = None  # whose items or tasks it is about; None means all
    names: tuple[str, ...] = ()  # of fields
    what: str = ""  # of a share: rejects, dead …
    least: float | None = None
    most: float | None = None
    pattern: str = ""
    type: str = ""

    @property
    def is_of_items(self) -> bool:
        """Whether every single item is checked."""
        return self.kind in ("unique", "range", "pattern", "type")

    def admits(self, value: Any) -> bool:
        """Return whether a value of the field is as expected."""
        match self.kind:
            case "range":
                low, high = self.least, self.most
                return _is_number(value) and (low is None or value >= low) and (high is None or value <= high)
            case "pattern":
                return isinstance(value, str) and re.fullmatch(self.pattern, value) is not None
            case "type":
                return _TYPE_CHECKS[self.type](value)
            case _:
                return True


def spellings(name: str, step: str) -> tuple[str, ...]:
    """Return what a field may be called in items of a step: as written, and without its step's name."""
    return (name, name.removeprefix(f"{step}.")) if name.startswith(f"{step}.") else (name,)


class Expectations(msgspec.Struct, frozen=True, kw_only=True):
    """All that a scraper expects of its runs."""

    rules: tuple[Expectation, ...] = ()
    defaults: Literal["warn", "strict", "off"] = "warn"  # what becomes of the differences from earlier runs

    def check_steps(self, steps: Collection[str], unknown: Callable[[str], str]) -> None:
        """Raise InvalidSetting for a rule about a step that the scraper lacks; `unknown` says so."""
        for rule in self.rules:
            if rule.step is not None and rule.step not in steps:
                raise InvalidSetting("expect", f"{rule.text!r}: {unknown(rule.step)}")
            for step, _, field in (name.partition(" ") for name in rule.names):
                if field and step in steps:
                    raise InvalidSetting(
                        "expect", f"{rule.text!r}: write {f'{step}.{field}'!r} for a field of one step"
                    )

    def __str__(self) -> str:
        if not self.rules and self.defaults != "strict":
            return "off" if self.defaults == "off" else "on"
        first = {"warn": [], "strict": [STRICT], "off": [NO_DEFAULTS]}[self.defaults]
        return "; ".join([*first, *(rule.text for rule in self.rules)])


def read_expect(key: str, value: Any) -> Expectations:
    """Read rules: a list of texts, or one text with ";" between them; None or "off" for none at all."""
    if isinstance(value, Expectations):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if value is None or value is False or word in OFF:
        return Expectations(defaults="off")
    if value is True or word in ON:
        return Expectations()
    texts = re.split(r"[;\n]", value) if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(text, str) for text in texts):
        raise _refusal(key, value)
    rules: list[Expectation] = []
    defaults: Literal["warn", "strict", "off"] = "warn"
    for text in filter(None, (" ".join(text.split()) for text in texts)):
        if text in (STRICT, NO_DEFAULTS):
            defaults = "strict" if text == STRICT else "off"
        else:
            rules.append(_read_rule(key, text))
    return Expectations(rules=tuple(rules), defaults=defaults)


def _read_rule(key: str, text: str) -> Expectation:
    rule = text.removeprefix(WARN)
    for kind, form in _FORMS.items():
        if found := form.fullmatch(rule):
            return _rule_of(key, text, kind, found.groupdict())
    raise _refusal(key, text)


def _rule_of(key: str, text: str, kind: str, found: Mapping[str, str | None]) -> Expectation:
    numbers = {name: float(digits) for name in LIMITS if (digits := found.get(name))}
    limit = numbers["percent"] / 100 if "percent" in numbers else numbers.get("number")
    is_least = kind == "filled" or found.get("sign") == ">="
    least = numbers.get("least", limit if is_least else None)
    most = numbers.get("most", None if is_least else limit)
    if kind == "range" and least is None and most is None:
        raise _refusal(key, text)
    if least is not None and most is not None and least > most:
        raise InvalidSetting(key, f"{text!r}: {least:g} is more than {most:g}")
    if kind in ("filled", "share") and limit is not None and limit > 1:
        raise InvalidSetting(key, f"{text!r}: a share is at most 100%")
    if found.get("what") == "blocked" and found.get("step"):
        raise InvalidSetting(key, f"{text!r}: blocked counts the tasks of all steps; leave out the step")
    pattern = found.get("pattern") or ""
    if pattern:
        _check_pattern(key, pattern)
    return msgspec.convert(
        {
            "text": text,
            "kind": kind,
            "strict": not text.startswith(WARN),
            "step": found.get("step"),
            "names": [name.strip() for name in (found.get("names") or "").split(",") if name.strip()],
            "what": found.get("what") or "",
            "least": least,
            "most": most,
            "pattern": pattern,
            "type": found.get("type") or "",
        },
        Expectation,
    )


def _check_pattern(key: str, pattern: str) -> None:
    try:
        re.compile(pattern)
        searched(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InvalidSetting(key, f"{shorten(pattern)!r} is not a regular expression: {error}") from error
    except ValueError as error:
        raise InvalidSetting(key, f"{shorten(pattern)!r} {error}") from error


def _refusal(key: str, value: Any) -> InvalidSetting:
    shown = shorten(value if isinstance(value, str) else repr(value))
    return InvalidSetting(key, f"has rules such as {', '.join(map(repr, EXAMPLES))}; got {shown!r}")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_TYPE_CHECKS: Mapping[str, Callable[[Any], bool]] = {
    "text": lambda value: isinstance(value, str),
    "number": _is_number,
    "whole": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "bool": lambda value: isinstance(value, bool),
    "list": lambda value: isinstance(value, list),
    "object": lambda value: isinstance(value, dict),
}
