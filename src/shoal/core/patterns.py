"""Patterns to match URLs: globs in linear time, regular expressions within limits."""

import re
import warnings
from collections.abc import Callable
from urllib.parse import quote

Matcher = Callable[[str], object]

MAX_REPEATS = 2
MAX_SEARCH_REPEATS = 1
LARGE = 10  # a bounded repeat of at least this many is no better than an unbounded one

_ASCII = "".join(map(chr, range(0x21, 0x7F)))
_TOKEN = re.compile(
    r"\\."
    r"|\[\^?\]?(?:\\.|[^\\\]])*+\]"
    r"|\(\?[a-zA-Z]+\)"
    r"|\((?:\?(?:P?<\w+>|<[=!]|[a-zA-Z-]*:|[=!>]))?"
    r"|(?:[*+?]|\{\d*,?\d*\})[?+]?"
    r"|.",
    re.DOTALL,
)
_QUANTIFIER = re.compile(r"([*+?]|\{(\d*)(,?)(\d*)\})([?+]?)")


def glob(pattern: str) -> Matcher:
    """Return a matcher for a glob, in which "*" stands for any text."""
    return re.compile(glob_expression(quote(pattern, safe=_ASCII)), re.DOTALL).fullmatch


def glob_expression(pattern: str, anything: str = ".*") -> str:
    """Return the regular expression of a glob, in which "*" stands for what `anything` matches."""
    first, *rest = map(re.escape, re.split(r"\*+", pattern))
    if not rest:
        return first
    # Atomic, so that no star backtracks: five of them would otherwise take the fifth power of the length.
    middle = "".join(f"(?>{anything}?{piece})" for piece in rest[:-1])
    return f"{first}{middle}{anything}{rest[-1]}"


def regular(pattern: str) -> Matcher:
    """Return a matcher of a regular expression at the start of a text; raises ValueError.

    On a crafted URL, nested repeats take exponential time, and a sequence of repeats a power of its length.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # syntax that will change its meaning in a later Python
            matcher = re.compile(pattern).match
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    if (count := _repeats(pattern)) > MAX_REPEATS:
        raise ValueError(
            f"has {count} unbounded repeats; more than {MAX_REPEATS} could take hours on a long URL: "
            "make the others possessive, such as [0-9]++ and [^/]*+, or use a glob with *"
        )
    return matcher


def searched(pattern: str) -> None:
    """Check a regular expression for searches in long, untrusted texts; raises ValueError.

    A search starts again at every character, so one repeat already takes the square of the text's length.
    """
    if (count := _repeats(pattern)) > MAX_SEARCH_REPEATS:
        raise ValueError(
            f"has {count} unbounded repeats; more than {MAX_SEARCH_REPEATS} could take hours on a page: "
            "make the others possessive, such as [^<]*+, or leave them out"
        )


class _Group:
    """The state of a group while it is parsed."""

    def __init__(self, *, atomic: bool = False) -> None:
        self.atomic, self.varies = atomic, False


def _repeats(pattern: str) -> int:
    """Return how many repeats can backtrack; raises ValueError if one is nested in another."""
    open_groups = [_Group()]
    count, last_varies = 0, False
    for token in _TOKEN.findall(pattern):
        inside = any(group.atomic for group in open_groups)
        if token[0] == "(" and token[-1] != ")":
            open_groups.append(_Group(atomic=token == "(?>"))
            continue
        if token == ")" and len(open_groups) > 1:
            closed = open_groups.pop()
            last_varies = closed.varies and not closed.atomic
            open_groups[-1].varies |= last_varies
            continue
        if token == "|":
            open_groups[-1].varies = len(open_groups) > 1
        elif _backtracks(token):
            if last_varies:
                raise ValueError(
                    "repeats a group that itself repeats or has alternatives, which can take for ever; "
                    "make the repeat possessive, such as (?:/[a-z]+)*+"
                )
            count += not inside
            open_groups[-1].varies = True
        last_varies = False
    return count


def _backtracks(token: str) -> bool:
    found = _QUANTIFIER.fullmatch(token)
    if found is None or found[5] == "+" or found[1] == "?":
        return False
    if found[1] in ("*", "+"):
        return True
    least, comma, most = found[2], found[3], found[4]
    return bool(comma and (least or most)) and (not most or int(most) >= LARGE)
