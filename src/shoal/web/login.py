"""Logging in and out: a token or a ticket for a signed cookie."""

from dataclasses import dataclass, field
from typing import Literal, TypedDict
from urllib.parse import parse_qs

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from shoal.web.door import too_many
from shoal.web.guard import SESSION, Credentials, Role
from shoal.web.plain import rendered
from shoal.web.site import site_of
from shoal.web.throttle import Throttle
from shoal.web.tickets import Tickets

router = APIRouter(include_in_schema=False)
LONGEST_FORM = 8_192


@dataclass(frozen=True, slots=True)
class Doorkeeper:
    """What is known of those who come in: credentials, tickets, and failures of late."""

    credentials: Credentials
    tickets: Tickets = field(default_factory=Tickets)
    throttle: Throttle = field(default_factory=Throttle)


class _Manner(TypedDict):
    path: str
    httponly: bool
    samesite: Literal["strict"]
    secure: bool


@router.get("/login")
async def form(request: Request, ticket: str = "", next: str = "/") -> Response:
    """Show the form, or let somebody in who has a ticket."""
    if not ticket:
        return _form(request, next)
    # A wrong ticket does not count as a failure: nobody guesses 192 bits, and any page of any site could send
    # ten of them in the operator's name and lock the operator out.
    if _keeper(request).tickets.take(ticket):
        return _welcome(request, "operator", "/")
    return _form(request, next, "This link was used already, or is too old. Type the token instead.", 403)


@router.post("/login")
async def enter(request: Request) -> Response:
    """Let somebody in who knows a token."""
    keeper, address = _keeper(request), _address(request)
    if wait := keeper.throttle.wait(address):
        raise too_many(wait)
    given = parse_qs((await request.body())[:LONGEST_FORM].decode("latin-1"))
    token, next = given.get("token", [""])[0].strip(), given.get("next", ["/"])[0]
    role = keeper.credentials.role_of_token(token)
    if role:
        return _welcome(request, role, next)
    keeper.throttle.failed(address)
    return _form(request, next, "This token is not known. Whoever started the server has it.", 403)


@router.post("/logout")
async def leave(request: Request) -> Response:
    """End the session, wherever else its cookie may be."""
    answer = RedirectResponse(f"{_root(request)}/login", 303)
    credentials = _keeper(request).credentials
    credentials.end_session(request.cookies.get(credentials.cookie, ""))
    answer.delete_cookie(credentials.cookie, **_manner(request))
    return answer


def own_path(text: str) -> str:
    """Return a path of this server, the overview where the text would lead elsewhere."""
    is_own = text.startswith("/") and text[1:2] not in ("/", "\\") and text.isprintable()
    return text if is_own else "/"


def _welcome(request: Request, role: Role, next: str) -> Response:
    credentials = _keeper(request).credentials
    answer = RedirectResponse(f"{_root(request)}{own_path(next)}", 303)
    answer.set_cookie(
        credentials.cookie,
        credentials.session(role),
        max_age=int(SESSION.total_seconds()),
        **_manner(request),
    )
    return answer


def _manner(request: Request) -> _Manner:
    # A browser takes a cookie away only by what it was given with.
    secure = site_of(request).settings.is_behind_https
    return {"path": "/", "httponly": True, "samesite": "strict", "secure": secure}


def _form(request: Request, next: str, trouble: str = "", status: int = 200) -> Response:
    page = rendered("login.html", root=_root(request), next=own_path(next), trouble=trouble)
    return HTMLResponse(page, status)


def _keeper(request: Request) -> Doorkeeper:
    keeper: Doorkeeper = request.app.state.doorkeeper
    return keeper


def _address(request: Request) -> str:
    return request.client.host if request.client else "unknown"


def _root(request: Request) -> str:
    return str(request.scope.get("root_path", ""))
