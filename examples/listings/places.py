"""The towns of the directory: as many as give the report's 309,720 targets with its 30 categories."""

import random
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path

from examples.listings.directory import cities

TOWNS = 10_324
CATEGORIES = (Path(__file__).parent / "all-categories.txt").read_text().split()

_FIRST = [
    "Ash",
    "Bear",
    "Cedar",
    "Clear",
    "Deer",
    "Eagle",
    "Elk",
    "Fair",
    "Fox",
    "Glen",
    "Green",
    "Hill",
    "Iron",
    "Lake",
    "Maple",
    "Mill",
    "Oak",
    "Pine",
    "Red",
]
_LAST = [
    "brook",
    "bury",
    "creek",
    "dale",
    "field",
    "ford",
    "grove",
    "haven",
    "land",
    "mont",
    "port",
    "ridge",
    "side",
    "springs",
    "ton",
    "view",
    "ville",
    "wood",
]


@cache
def places() -> dict[str, dict[str, str]]:
    """Return the towns of each state by the words of their addresses; the first four are real."""
    states = cities()
    each, more = divmod(TOWNS, len(states))
    return {
        state: dict(islice(_towns(state, real), each + (number < more)))
        for number, (state, real) in enumerate(states.items())
    }


def as_csv() -> str:
    """Return all towns as a table, as the axis of a combination reads it."""
    rows = (f"{state},{town}" for state, towns in places().items() for town in towns.values())
    return "\n".join(["state,city", *rows, ""])


def _towns(state: str, real: dict[str, str]) -> Iterator[tuple[str, str]]:
    yield from real.items()
    names = [f"{first}{last}" for first in _FIRST for last in _LAST]
    random.Random(state).shuffle(names)
    yield from ((name.lower(), name) for name in names if name.lower() not in real)
