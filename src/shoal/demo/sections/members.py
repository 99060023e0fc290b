"""`/members/`: orders that only those see who have logged in by a form with a CSRF token."""

import hmac
import random
from hashlib import sha256
from urllib.parse import parse_qs

from shoal.demo.http import ShopRequest
from shoal.demo.routes import ShopResponse
from shoal.demo.sections.responses import error_page, link_list, page_number, page_response

LOGIN, ORDERS = "/members/login", "/members/orders"
USER, PASSWORD = "reader", "practice"
PAGES, PER_PAGE = 5, 8

_FORM = (
    '<form method="post" action="{action}">\n<input type="hidden" name="csrf" value="{csrf}">\n'
    '<p><label>User <input name="user"></label></p>\n'
    '<p><label>Password <input name="password" type="password"></label></p>\n'
    "<p><button>Log in</button></p>\n</form>\n<p>User {user}, password {password}.</p>"
)


class MembersSection:
    """Cookies are signed, so that nothing has to be remembered and a restarted site knows its members."""

    def __call__(self, request: ShopRequest) -> ShopResponse:
        path = request.path.partition("?")[0]
        match request.method, path:
            case "POST", "/members/login":
                return _log_in(request)
            case "POST", _:
                return ShopResponse(status=405)
            case _, "/members/login":
                return _login_form()
            case _, "/members/orders" if _cookies(request).get("member") == _sign(USER):
                return _orders(page_number(request))
            case _, "/members/orders":
                return error_page(401)
            case _:
                return error_page(404)


def _login_form() -> ShopResponse:
    visit = _sign("visit")[:16]
    main = _FORM.format(action=LOGIN, csrf=_sign(visit), user=USER, password=PASSWORD)
    return page_response("Log in", main, headers=(("Set-Cookie", f"visit={visit}; Path=/members; HttpOnly"),))


def _log_in(request: ShopRequest) -> ShopResponse:
    sent = {name: values[0] for name, values in parse_qs(request.body.decode("utf-8", "replace")).items()}
    if sent.get("csrf") != _sign(_cookies(request).get("visit", "")):
        return page_response("Your form is too old", link_list({LOGIN: "Try again"}), 401)
    if (sent.get("user"), sent.get("password")) != (USER, PASSWORD):
        return page_response("Wrong user or password", link_list({LOGIN: "Try again"}), 401)
    cookie = ("Set-Cookie", f"member={_sign(USER)}; Path=/members; HttpOnly")
    return ShopResponse(status=303, headers=(("Location", ORDERS), cookie))


def _orders(number: int) -> ShopResponse:
    if not 1 <= number <= PAGES:
        return error_page(404)
    rows = "\n".join(_order(index) for index in range((number - 1) * PER_PAGE, number * PER_PAGE))
    after = f'<a rel="next" href="{ORDERS}?page={number + 1}">Next page</a>' if number < PAGES else ""
    table = f"<table>\n<tr><th>Order</th><th>Date</th><th>Total</th></tr>\n{rows}\n</table>\n{after}"
    return page_response("Your orders", f'<p class="user">{USER}</p>\n{table}')


def _order(index: int) -> str:
    rng = random.Random(index)
    date = f"2026-{1 + index % 12:02d}-{1 + index % 28:02d}"
    return f"<tr><td>A{1000 + index}</td><td>{date}</td><td>{rng.randint(500, 90_000) / 100:.2f}</td></tr>"


def _cookies(request: ShopRequest) -> dict[str, str]:
    pairs = (pair.strip().partition("=") for pair in request.header("Cookie").split(";"))
    return {name: value for name, _, value in pairs}


def _sign(text: str) -> str:
    return hmac.new(b"a site to practise on", text.encode(), sha256).hexdigest()
