"""Patterns that URLs are held against: globs in linear time, regular expressions within limits."""

import re
import warnings
from collections.abc import Callable
from urllib.parse import quote

Matcher = Callable[[str], object]

MOST_REPEATS = 2
MOST_IN_SEARCHES = 1
LARGE = 10  # from so many on, a repeat with an end is no better than one without

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
    """Return what tells whether "*" in a pattern, which stands for any text, makes it equal to a text."""
    first, *rest = re.split(r"\*+", quote(pattern, safe=_ASCII))
    if not rest:
        return first.__eq__
    # Atomic, so that no star ever gives back: five of them would else take the fifth power of the length.
    middle = "".join(f"(?>.*?{re.escape(piece)})" for piece in rest[:-1])
    return re.compile(f"{re.escape(first)}{middle}.*{re.escape(rest[-1])}", re.DOTALL).fullmatch


def regular(pattern: str) -> Matcher:
    """Return what holds a regular expression against the beginning of a text; raises ValueError.

    Repeats inside repeats take for ever on a URL made for it, and a sequence of them a power of its length.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what will mean something else one day
            matcher = re.compile(pattern).match
    except (re.error, RecursionError, OverflowError, Warning) as error:
        raise ValueError(f"is not a regular expression: {error}") from error
    if (count := _repeats(pattern)) > MOST_REPEATS:
        raise ValueError(
            f"repeats without end {count} times; more than {MOST_REPEATS} could take hours on a long URL: "
            "let the others keep what they have, such as [0-9]++ and [^/]*+, or write a glob with *"
        )
    return matcher


def searched(pattern: str) -> None:
    """Check a regular expression that is searched for in long texts of others; raises ValueError.

    A search begins anew at every letter, so that one repeat takes the square of a text's length already.
    """
    if (count := _repeats(pattern)) > MOST_IN_SEARCHES:
        raise ValueError(
            f"repeats without end {count} times; more than {MOST_IN_SEARCHES} could take hours on a page: "
            "let the others keep what they have, such as [^<]*+, or leave them out"
        )


class _Group:
    """What is known of a group while it is read."""

    def __init__(self, *, atomic: bool = False) -> None:
        self.atomic, self.varies = atomic, False


def _repeats(pattern: str) -> int:
    """Return how many repeats can give back what they took; raises ValueError where one stands in another."""
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
        elif _gives_back(token):
            if last_varies:
                raise ValueError(
                    "repeats a group that itself repeats or has a choice, which a text can make endless; "
                    "close it with a plus, such as (?:/[a-z]+)*+"
                )
            count += not inside
            open_groups[-1].varies = True
        last_varies = False
    return count


def _gives_back(token: str) -> bool:
    found = _QUANTIFIER.fullmatch(token)
    if found is None or found[5] == "+" or found[1] == "?":
        return False
    if found[1] in ("*", "+"):
        return True
    least, comma, most = found[2], found[3], found[4]
    return bool(comma and (least or most)) and (not most or int(most) >= LARGE)
