"""The API of a social network: profiles, and followers in pages.

By hand: python -m examples.social.site
"""

import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from html import escape
from typing import Any

from examples.common.site import Ports, open_ports, serve
from shoal.demo.http import ShopRequest
from shoal.demo.responses import ShopResponse, json_response, link_list, page_response

SITE = 8851
USERS, PER_PAGE = 150, 25

_FIRST = ("amber", "basil", "cleo", "dana", "esme", "felix", "gita", "hugo", "iris", "jonas")
_LAST = ("reads", "cooks", "runs", "paints", "sings")


class Network:
    """The same users on every request; every tenth fails at its first request, every fiftieth is gone."""

    def __init__(self) -> None:
        self._names = [_name(number) for number in range(USERS)]
        self._numbers = {name: number for number, name in enumerate(self._names)}
        self._failed: set[tuple[str, bool]] = set()

    def __call__(self, request: ShopRequest) -> ShopResponse:
        path = request.path.partition("?")[0]
        match [part for part in path.split("/") if part]:
            case ["users"]:
                links = {f"/users/{name}": name for name in self._names}
                return page_response("Users", link_list(links))
            case ["users", name, *more] if name in self._numbers and more in ([], ["followers"]):
                return self._user(request, name, bool(more))
        return json_response({"message": f"Nothing at {escape(path)}"}, 404)

    def _user(self, request: ShopRequest, name: str, wants_followers: bool) -> ShopResponse:
        number = self._numbers[name]
        if number % 50 == 49:
            return json_response({"message": "This account no longer exists"}, 410)
        if number % 10 == 3 and (name, wants_followers) not in self._failed:
            self._failed.add((name, wants_followers))
            return json_response({"message": "Over capacity"}, 500)
        followers = self._followers(name)
        if not wants_followers:
            return json_response({"username": name, "bio": _bio(name), "followers": len(followers)})
        page = request.page
        found = followers[(page - 1) * PER_PAGE : page * PER_PAGE]
        return json_response(
            {"followers": found, "next": page + 1 if page * PER_PAGE < len(followers) else None}
        )

    def _followers(self, name: str) -> list[str]:
        rng = random.Random(f"{name}/followers")
        return sorted(rng.sample([one for one in self._names if one != name], rng.randint(0, 120)))


def _name(number: int) -> str:
    rng = random.Random(number)
    return f"{rng.choice(_FIRST)}_{rng.choice(_LAST)}_{number}"


def _bio(name: str) -> str:
    first, verb, _ = name.split("_")
    return (
        f"{first.title()} {verb}, mostly on {random.Random(name).choice(('Mondays', 'trains', 'the roof'))}."
    )


@asynccontextmanager
async def open_site(are_free: bool) -> AsyncIterator[tuple[Ports, Callable[[], dict[str, Any]]]]:
    async with open_ports(are_free=are_free) as ports:
        statuses = await ports.serve(Network(), SITE, home="/users")
        yield ports, lambda: {"statuses": statuses}


if __name__ == "__main__":
    serve(open_site)
