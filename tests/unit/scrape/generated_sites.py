"""Sites that a program makes up, without end: a function from URL to the links of its page."""

from collections.abc import Callable
from datetime import date
from random import Random
from string import ascii_lowercase

HOME = "https://endless.test"
Site = Callable[[str, dict[str, str]], list[str]]


def endless_calendar(path: str, params: dict[str, str]) -> list[str]:
    month = params.get("month", date.today().strftime("%Y-%m"))
    year, number = map(int, month.split("-"))
    months = [divmod(year * 12 + number - 1 + step, 12) for step in (-1, 1)]
    days = [f"/calendar/day?date={month}-{day:02}" for day in range(1, 29)]
    return [*(f"/calendar?month={max(y, 1):04}-{m + 1:02}" for y, m in months), *days]


def next_month(path: str, params: dict[str, str]) -> list[str]:
    year, number = map(int, params.get("month", date.today().strftime("%Y-%m")).split("-"))
    year, number = divmod(year * 12 + number, 12)
    return [f"/calendar?month={year:04}-{number + 1:02}"]


def sessions_in_paths(path: str, params: dict[str, str]) -> list[str]:
    token = f"{Random(path).getrandbits(128):032x}"
    return [f"/{token}/{place}" for place in ("", "about", *(f"product/{n}" for n in range(8)))]


def faceted_shop(path: str, params: dict[str, str]) -> list[str]:
    """Return some of the links of a shop with nine filters of ten values each."""
    chance = Random(f"{path}{params}")
    filters = [(f"facet{name}", str(value)) for name in ascii_lowercase[:9] for value in range(10)]
    chosen = [dict(sorted((params | dict([one])).items())) for one in chance.sample(filters, 10)]
    return ["/shop?" + "&".join(f"{name}={value}" for name, value in one.items()) for one in chosen]


def maze_of_new_text(path: str, params: dict[str, str]) -> list[str]:
    chance = Random(path)
    words = ["".join(chance.choices(ascii_lowercase, k=7)) for _ in range(16)]
    up = path.rpartition("/")[0] or "/"
    return ["/", up, *(f"/wiki/{one}/{two}" for one, two in zip(words[::2], words[1::2], strict=True))]


def next_page_for_ever(path: str, params: dict[str, str]) -> list[str]:
    return [f"/list?page={int(params.get('page', 1)) + 1}"]


GENERATED = [
    endless_calendar,
    next_month,
    sessions_in_paths,
    faceted_shop,
    maze_of_new_text,
    next_page_for_ever,
]


def render(site: Site, url: str) -> bytes:
    """Return the HTML of a page: new text and the links."""
    path, _, query = url.removeprefix(HOME).partition("?")
    links = site(path, dict(param.partition("=")[::2] for param in query.split("&") if param))
    text = " ".join(map(str, Random(url).choices(range(10**6), k=30)))
    anchors = "".join(f'<a href="{link.replace("&", "&amp;")}">x</a>' for link in links)
    return f"<h1>{text[:30]}</h1><p>{text}</p>{anchors}".encode()
