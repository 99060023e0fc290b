"""`/listings/`: businesses by state, city and category, as a directory of the United States has them."""

import csv
import random
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path

from shoal.demo.http import ShopRequest
from shoal.demo.responses import ShopResponse, error_page, link_list, page_response

ROOT = "/listings/"

_FIRST = (
    "Blue",
    "Main Street",
    "Family",
    "River",
    "Golden",
    "Corner",
    "Union",
    "Old Town",
    "Sunrise",
    "Maple",
)
_STREETS = ("Oak St", "2nd Ave", "Mill Rd", "Harbor Dr", "Elm St", "Railroad Ave", "Church St")


@cache
def cities() -> dict[str, dict[str, str]]:
    """Return the cities of each state, by the words of their addresses."""
    found: dict[str, dict[str, str]] = {}
    text = Path(__file__).with_name("real-cities.csv").read_text(encoding="utf-8")
    for state, city in csv.reader(text.splitlines()[1:]):
        found.setdefault(state, {})[city.lower().replace(" ", "-").replace(".", "")] = city
    return found


class DirectorySection:
    """Pages of states, cities and categories; each is the same on every request."""

    def __init__(self, places: Mapping[str, Mapping[str, str]], categories: Sequence[str]) -> None:
        self._places, self._categories = places, categories

    def __call__(self, request: ShopRequest) -> ShopResponse:
        if request.method == "POST":
            return ShopResponse(status=405)
        places, categories = self._places, self._categories
        parts = [part for part in request.path.partition("?")[0].removeprefix(ROOT).split("/") if part]
        match parts:
            case []:
                return _index("Businesses of the United States", ROOT, {state: state for state in places})
            case [state] if state in places:
                return _index(state, f"{ROOT}{state}/", places[state])
            case [state, city] if city in places.get(state, ()):
                where = f"{ROOT}{state}/{city}/"
                return _index(f"{places[state][city]}, {state}", where, {name: name for name in categories})
            case [state, city, category] if city in places.get(state, ()) and category in categories:
                return _listing(state, city, category, places[state][city])
        return error_page(404)


def _index(title: str, where: str, names: Mapping[str, str]) -> ShopResponse:
    return page_response(title, link_list({f"{where}{part}": name for part, name in names.items()}))


def _listing(state: str, city: str, category: str, name: str) -> ShopResponse:
    rng = random.Random(f"{state}/{city}/{category}")
    found = [_business(rng, state, city, category, number) for number in range(rng.randint(0, 6))]
    nothing = '<p class="none">No businesses found.</p>'
    return page_response(f"{category} in {name}, {state}", "\n".join(found) or nothing)


def _business(rng: random.Random, state: str, city: str, category: str, number: int) -> str:
    name = f"{rng.choice(_FIRST)} {category.replace('-', ' ').title()}"
    phone = f"({rng.randint(201, 989)}) 555-{rng.randint(100, 9999):04d}" if rng.random() > 0.1 else ""
    sponsored = ' <span class="ad">Sponsored</span>' if rng.random() < 0.15 else ""
    return (
        f'<article class="business" data-id="{state}-{city}-{category}-{number}">\n'
        f'<h2>{escape(name)}</h2>{sponsored}\n<p class="phone">{phone}</p>\n'
        f'<p class="address">{rng.randint(1, 990)} {rng.choice(_STREETS)}</p>\n'
        f'<p class="rating">{rng.randint(20, 50) / 10}</p>\n</article>'
    )
