"""Login to the control room, and logout: a token or a ticket in exchange for a signed cookie."""

from dataclasses import dataclass, field
from typing import Literal, TypedDict

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shoal.web.auth import SESSION, Credentials, Role, Throttle, Ticket
from shoal.web.context import context_of
from shoal.web.errors import render_standalone
from shoal.web.middleware import too_many_failures
from shoal.web.views.form import form_field, read_form
from shoal.web.views.render import root_of

router = APIRouter(include_in_schema=False)


@dataclass(frozen=True, slots=True)
class LoginService:
    """Login state: credentials, the ticket and recent failures."""

    credentials: Credentials
    ticket: Ticket = field(default_factory=Ticket)
    throttle: Throttle = field(default_factory=Throttle)


class _CookieOptions(TypedDict):
    path: str
    httponly: bool
    samesite: Literal["strict"]
    secure: bool


@router.get("/login")
async def show_form(request: Request, ticket: str = "", next: str = "/") -> Response:
    """Show the login form, or log in with a ticket."""
    if not ticket:
        return _form(request, next)
    # A wrong ticket is not counted as a failure: nobody guesses 192 bits, and any page of any site could
    # send ten of them from the operator's browser and lock the operator out.
    if _logins(request).ticket.redeem(ticket):
        return _log_in(request, "operator", "/")
    return _form(request, next, "This link has been used or has expired. Enter the token instead.", 403)


@router.post("/login")
async def log_in(request: Request) -> Response:
    """Log in with a token."""
    logins, address = _logins(request), _address(request)
    if wait := logins.throttle.wait_seconds(address):
        raise too_many_failures(wait)
    form = await read_form(request)
    token, next = form_field(form, "token").strip(), form_field(form, "next") or "/"
    role = logins.credentials.role_of_token(token)
    if role:
        return _log_in(request, role, next)
    logins.throttle.record_failure(address)
    return _form(request, next, "Wrong token. The person who started the server has it.", 403)


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """End the session, also for copies of its cookie."""
    response = RedirectResponse(f"{root_of(request)}/login", 303)
    credentials = _logins(request).credentials
    credentials.end_session(request.cookies.get(credentials.cookie, ""))
    response.delete_cookie(credentials.cookie, **_cookie_options(request))
    return response


def own_path(text: str) -> str:
    """Return a path of this server; the overview if the text points elsewhere."""
    is_own = text.startswith("/") and text[1:2] not in ("/", "\\") and text.isprintable()
    return text if is_own else "/"


def _log_in(request: Request, role: Role, next: str) -> Response:
    credentials = _logins(request).credentials
    response = RedirectResponse(f"{root_of(request)}{own_path(next)}", 303)
    response.set_cookie(
        credentials.cookie,
        credentials.new_session(role),
        max_age=int(SESSION.total_seconds()),
        **_cookie_options(request),
    )
    return response


def _cookie_options(request: Request) -> _CookieOptions:
    # A browser deletes a cookie only with the attributes it was set with.
    secure = context_of(request).settings.is_behind_https
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": secure}


def _form(request: Request, next: str, error: str = "", status: int = 200) -> Response:
    page = render_standalone(
        "login.html",
        root=root_of(request),
        next=own_path(next),
        error=error,
        is_chosen=context_of(request).settings.is_chosen,
    )
    return HTMLResponse(page, status)


def _logins(request: Request) -> LoginService:
    logins: LoginService = request.app.state.logins
    return logins


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"
