"""A site of a thousand real pages among ten traps, as a function from URL to HTML."""

from collections.abc import Callable
from datetime import date
from random import Random

HOME = "https://shop.test/"
CATEGORIES, PAGES, MAX_PER_PAGE = 20, 3, 16
PRODUCTS = 1000 - 1 - CATEGORIES * PAGES
WORDS = [
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "flint",
    "grove",
    "heath",
    "ivory",
    "jade",
    "karst",
    "larch",
]
FILTERS = {
    "color": ["red", "blue", "green", "black"],
    "size": ["s", "m", "l", "xl"],
    "brand": ["ax", "by", "cz"],
    "fit": ["slim", "wide"],
    "wool": ["yes", "no"],
    "sale": ["yes", "no"],
}
TRAPS = [
    "calendar?month=" + date.today().strftime("%Y-%m"),
    "forum/index",
    "again/",
    "filter?color=red",
    "maze/start",
    "grow/",
    "hop/0",
    "wall?next=home",
    "lab/entry",
]


def serve(url: str) -> tuple[str, str]:
    """Return the kind of a URL, "real" or the name of a trap, and its HTML."""
    path, _, query = url.removeprefix(HOME).partition("?")
    params = dict(param.partition("=")[::2] for param in query.split("&") if param)
    folder, _, rest = path.partition("/")
    if not path:
        return "real", NAVIGATION + links(f"/cat/{number}" for number in range(CATEGORIES))
    return (SERVERS.get(folder) or nothing)(url, rest, params)


def is_real(url: str) -> bool:
    """Tell whether a URL is one of the thousand real pages."""
    return serve(url)[0] == "real"


def links(hrefs) -> str:
    return "".join(f'<a href="{href}">link</a>' for href in hrefs)


NAVIGATION = links(["/", *(f"/{trap}" for trap in TRAPS)])


def nothing(url, rest, params):
    return "nothing", NAVIGATION


def category(url, rest, params):
    number, page = int(rest), int(params.get("page", 1))
    first = number * PAGES * MAX_PER_PAGE + (page - 1) * MAX_PER_PAGE
    products = [f"/product/{n}" for n in range(first, first + MAX_PER_PAGE) if n < PRODUCTS]
    views = [
        f"/cat/{rest}?page={page}&sort={by}&dir={way}" for by in ("price", "name") for way in ("asc", "desc")
    ]
    following = [f"/cat/{rest}?page={page + 1}"] if page < PAGES else []
    kind = "real" if set(params) <= {"page"} else "sorted views"
    return kind, NAVIGATION + links([*products, *views, *following])


def product(url, rest, params):
    chance = Random(rest)
    related = [f"/product/{chance.randrange(PRODUCTS)}" for _ in range(4)]
    session = f"/product/{rest}?sid={chance.getrandbits(128):032x}"
    body = f"<h1>Product {rest}</h1>" + links([*related, f"/product/{rest}?print=1", session])
    return "printed views" if "print" in params else "sessions" if params else "real", NAVIGATION + body


def calendar(url, rest, params):
    year, month = map(
        int, (params.get("month") or "/".join(rest.split("/")[:2]).replace("/", "-")).split("-")
    )
    before, after = divmod(year * 12 + month - 2, 12), divmod(year * 12 + month, 12)
    months = [f"/calendar?month={y:04}-{m + 1:02}" for y, m in (before, after)]
    days = [f"/calendar/{year:04}/{month:02}/{day:02}" for day in range(1, 29)]
    return "calendar", NAVIGATION + links(months + days)


def forum(url, rest, params):
    session = f"{Random(url).getrandbits(128):032x}"
    return "sessions", links([f"/forum/index;jsessionid={session}", f"/forum/index?PHPSESSID={session}"])


def again(url, rest, params):
    return "repeating paths", NAVIGATION + links(["again/", "./again/"])


def filters(url, rest, params):
    chosen = [
        {**{k: v for k, v in params.items() if k != name}, name: v} for name in FILTERS for v in FILTERS[name]
    ]
    hrefs = ["/filter?" + "&".join(f"{name}={value}" for name, value in one.items()) for one in chosen]
    return "filters", NAVIGATION + links([*hrefs, *(f"/product/{number}" for number in range(10))])


def maze(url, rest, params):
    chance = Random(url)
    hrefs = ["/maze/" + "-".join(chance.choices(WORDS, k=3)) for _ in range(6)]
    return "soft 404", NAVIGATION + "<h1>Sorry, nothing here</h1>" + links(hrefs)


def grow(url, rest, params):
    return "growing paths", NAVIGATION + links(["more/", "other/", "deeper/x/"])


def hop(url, rest, params):
    return "endless hops", links([f"/hop/{int(rest) + 1}"])


def wall(url, rest, params):
    return "cookie wall", links([f"/wall?next=home&t={Random(url).getrandbits(64):016x}"])


def lab(url, rest, params):
    chance = Random(url)
    text = " ".join(chance.choices(WORDS, k=50))
    # Of so many words that hardly any page is linked twice.
    names = ["".join(chance.choices(WORDS, k=6)) for _ in range(8)]
    return "labyrinth", f"<p>{text}</p>" + links(f"/lab/{name[:20]}/{name[20:]}" for name in names)


SERVERS: dict[str, Callable] = {
    "cat": category,
    "product": product,
    "calendar": calendar,
    "forum": forum,
    "again": again,
    "filter": filters,
    "maze": maze,
    "grow": grow,
    "hop": hop,
    "wall": wall,
    "lab": lab,
}
