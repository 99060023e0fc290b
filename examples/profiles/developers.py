"""Developers, as an API with rate limits and as pages with their links elsewhere."""

import random
from html import escape

from shoal.demo.http import ShopRequest
from shoal.demo.practice import TokenQuota
from shoal.demo.responses import ShopResponse, error_page, json_response, page_response

PER_PAGE = 25

_FIRST = ("ada", "bo", "chen", "dara", "emil", "fatou", "gus", "hana", "ivo", "june", "kofi", "lena")
_LAST = ("adler", "bravo", "costa", "diaz", "eriks", "faye", "gomez", "haddad", "ito", "jansen", "kim")
_PLACES = ("Lagos", "Berlin", "São Paulo", "Osaka", "Austin", "Nairobi", "Lyon", "Hanoi", "Oslo", "Lima")
_LANGUAGES = ("Python", "Rust", "Go", "TypeScript", "C", "Elixir")


class PeopleSection:
    """The same people on every request; their logins are numbered."""

    def __init__(self, count: int, quota: TokenQuota) -> None:
        self._logins = [_login(number) for number in range(count)]
        self._known = frozenset(self._logins)
        self._quota = quota

    def __call__(self, request: ShopRequest) -> ShopResponse:
        parts = [part for part in request.path.partition("?")[0].split("/") if part][1:]
        if parts[1:] == ["links"]:
            return _links(parts[0]) if parts[0] in self._known else error_page(404)
        if refusal := self._quota.refuse(request):
            return refusal
        match parts:
            case []:
                data = self._search(request.page)
            case [login] if login in self._known:
                data = _profile(login)
            case _:
                data = None
        headers = self._quota.headers(request)
        return json_response(data or {"message": "Not found"}, 200 if data else 404, headers)

    def _search(self, number: int) -> dict[str, object] | None:
        found = self._logins[(number - 1) * PER_PAGE : number * PER_PAGE] if number else []
        more = number * PER_PAGE < len(self._logins)
        after = f"/people?page={number + 1}" if more else None
        return {"logins": found, "total": len(self._logins), "next": after} if found else None


def _login(number: int) -> str:
    rng = random.Random(number)
    return f"{rng.choice(_FIRST)}-{rng.choice(_LAST)}-{number}"


def _profile(login: str) -> dict[str, object]:
    rng = random.Random(login)
    return {
        "login": login,
        "name": " ".join(login.split("-")[:2]).title(),
        "location": rng.choice(_PLACES) if rng.random() > 0.2 else None,
        "followers": rng.randint(0, 4_000),
        "languages": sorted(rng.sample(_LANGUAGES, rng.randint(1, 3))),
    }


def _links(login: str) -> ShopResponse:
    rng = random.Random(f"{login}/links")
    found = {
        name: f"https://{name}.example/{login}"
        for name in ("blog", "chat", "video", "code")
        if rng.random() > 0.4
    }
    rows = "\n".join(f'<li><a rel="me" href="{escape(href)}">{name}</a></li>' for name, href in found.items())
    return page_response(login, f"<ul>\n{rows}\n</ul>")
