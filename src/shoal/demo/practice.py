"""Parts of the first shop for other kinds of scrapers: an API with a rate limit, orders behind a login."""

import hmac
import math
import random
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from urllib.parse import parse_qs

from shoal.demo.catalogue import CatalogueProduct, Shop
from shoal.demo.http import ShopRequest
from shoal.demo.responses import (
    HeaderPairs,
    ShopResponse,
    error_page,
    json_response,
    link_list,
    page_response,
)

PREFIX = "practice-"  # of every token that is accepted
LIMIT, WINDOW = 100, 20.0  # requests of each token, and seconds
USER, PASSWORD = "reader", "practice"
ORDERS_PAGES, PER_PAGE, PRODUCTS_PER_PAGE = 5, 8, 20
# The templates of `shoal new` start there.
PLACES = {
    "/": "a shop, its sitemap, and pages that need JavaScript at /js/",
    "/api/products": f"the same products as JSON; tokens begin with {PREFIX}",
    "/members/login": f"orders behind a login; user {USER}, password {PASSWORD}",
}

Section = Callable[[ShopRequest], ShopResponse]


def practice_sections(shop: Shop) -> Mapping[str, Section]:
    """Return the sections by the first word of their paths."""
    return {"api": ShopApi(shop), "members": members}


@dataclass
class TokenQuota:
    """Admits requests by their token; a token has its own window, which begins with its first request."""

    limit: int = LIMIT
    seconds: float = WINDOW
    accepted: Counter[str] = field(default_factory=Counter)  # by token
    refused: Counter[str] = field(default_factory=Counter)  # 429, by token
    _ends: dict[str, float] = field(default_factory=dict)  # of the window of each token
    _used: Counter[str] = field(default_factory=Counter)

    def refuse(self, request: ShopRequest) -> ShopResponse | None:
        """Return the response to a request without a valid token or without quota, None for any other."""
        token = request.header("Authorization").removeprefix("Bearer ")
        if not token.startswith(PREFIX):
            return json_response({"message": "Bad credentials"}, 401)
        if time.time() >= self._ends.get(token, 0):
            self._ends[token], self._used[token] = time.time() + self.seconds, 0
        if self._used[token] >= self.limit:
            self.refused[token] += 1
            wait = ("Retry-After", str(max(1, math.ceil(self._ends[token] - time.time()))))
            return json_response({"message": "API rate limit exceeded"}, 429, (*self.headers(request), wait))
        self._used[token] += 1
        self.accepted[token] += 1
        return None

    def headers(self, request: ShopRequest) -> HeaderPairs:
        """Return what a response says about the quota of its token."""
        token = request.header("Authorization").removeprefix("Bearer ")
        return (
            ("X-RateLimit-Limit", str(self.limit)),
            ("X-RateLimit-Remaining", str(max(0, self.limit - self._used[token]))),
            ("X-RateLimit-Reset", str(math.ceil(self._ends[token]))),
        )


class ShopApi:
    """`/api/products`: the products of the shop as JSON, in pages, for those who have a token."""

    def __init__(self, shop: Shop) -> None:
        self._products, self._quota = shop.products, TokenQuota()

    def __call__(self, request: ShopRequest) -> ShopResponse:
        """Return one page."""
        if refusal := self._quota.refuse(request):
            return refusal
        headers, number = self._quota.headers(request), request.page
        end = number * PRODUCTS_PER_PAGE
        found = self._products[end - PRODUCTS_PER_PAGE : end] if number else ()
        if request.path.partition("?")[0] != "/api/products" or not found:
            return json_response({"message": "Not found"}, 404, headers)
        after = f"/api/products?page={number + 1}" if end < len(self._products) else None
        return json_response({"products": [_fields(one) for one in found], "next": after}, headers=headers)


def _fields(one: CatalogueProduct) -> dict[str, object]:
    price = one.price.removeprefix("€") if one.has_price else None
    return {"sku": one.sku, "name": one.name, "price": price, "stock": one.stock, "category": one.category}


def members(request: ShopRequest) -> ShopResponse:
    """Return a login form with a CSRF token, or the orders, which only those see who have logged in.

    Cookies are signed, so that nothing has to be remembered and a restarted site knows its members.
    """
    match request.method, request.path.partition("?")[0]:
        case "POST", "/members/login":
            return _log_in(request)
        case "POST", _:
            return ShopResponse(status=405)
        case _, "/members/login":
            return _login_form()
        case _, "/members/orders":
            is_member = _cookies(request).get("member") == _sign(USER)
            return _orders(request.page) if is_member else error_page(401)
        case _:
            return error_page(404)


def _login_form() -> ShopResponse:
    visit = _sign("visit")[:16]
    main = (
        '<form method="post" action="/members/login">\n'
        f'<input type="hidden" name="csrf" value="{_sign(visit)}">\n'
        '<p><label>User <input name="user"></label></p>\n'
        '<p><label>Password <input name="password" type="password"></label></p>\n'
        f"<p><button>Log in</button></p>\n</form>\n<p>User {USER}, password {PASSWORD}.</p>"
    )
    return page_response("Log in", main, headers=(("Set-Cookie", f"visit={visit}; Path=/members; HttpOnly"),))


def _log_in(request: ShopRequest) -> ShopResponse:
    sent = {name: values[0] for name, values in parse_qs(request.body.decode("utf-8", "replace")).items()}
    again = link_list({"/members/login": "Try again"})
    if sent.get("csrf") != _sign(_cookies(request).get("visit", "")):
        return page_response("Your form is too old", again, 401)
    if (sent.get("user"), sent.get("password")) != (USER, PASSWORD):
        return page_response("Wrong user or password", again, 401)
    cookie = ("Set-Cookie", f"member={_sign(USER)}; Path=/members; HttpOnly")
    return ShopResponse(status=303, headers=(("Location", "/members/orders"), cookie))


def _orders(number: int) -> ShopResponse:
    if not 1 <= number <= ORDERS_PAGES:
        return error_page(404)
    rows = "\n".join(_order(index) for index in range((number - 1) * PER_PAGE, number * PER_PAGE))
    after = f'<a rel="next" href="/members/orders?page={number + 1}">Next page</a>'
    table = f"<table>\n<tr><th>Order</th><th>Date</th><th>Total</th></tr>\n{rows}\n</table>"
    more = after if number < ORDERS_PAGES else ""
    return page_response("Your orders", f'<p class="user">{USER}</p>\n{table}\n{more}')


def _order(index: int) -> str:
    rng = random.Random(index)
    date = f"2026-{1 + index % 12:02d}-{1 + index % 28:02d}"
    return f"<tr><td>A{1000 + index}</td><td>{date}</td><td>{rng.randint(500, 90_000) / 100:.2f}</td></tr>"


def _cookies(request: ShopRequest) -> dict[str, str]:
    pairs = (pair.strip().partition("=") for pair in request.header("Cookie").split(";"))
    return {name: value for name, _, value in pairs}


def _sign(text: str) -> str:
    return hmac.new(b"a site to practise on", text.encode(), sha256).hexdigest()
