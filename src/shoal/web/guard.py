"""Who is asking: known by a token, or by a cookie that a login gave."""

import hmac
import secrets
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from hashlib import sha256
from typing import Literal

from itsdangerous import BadSignature, TimestampSigner
from starlette.requests import Request

from shoal.web.answers import Refused
from shoal.web.site import Site, WebSettings, site_of

Role = Literal["operator", "reader"]
SESSION = timedelta(hours=12)
BEARER = "bearer "
MAX_ENDED_SESSIONS = 10_000  # that are remembered; each needed a token to begin


@dataclass(frozen=True, slots=True)
class Guest:
    """Somebody who was let in; `name` is where from."""

    role: Role
    name: str


class Credentials:
    """Knows the tokens, and signs the cookies that stand for them."""

    def __init__(self, settings: WebSettings) -> None:
        self._settings = settings
        self._digests = {role: _digest(token) for role, token in settings.tokens.items()}
        # A new token makes another key, and ends every session that the old one began.
        self._signers = {
            role: TimestampSigner(_digest(f"shoal session {token}"), salt="shoal.web", digest_method=sha256)
            for role, token in settings.tokens.items()
        }
        self._ended: OrderedDict[bytes, None] = OrderedDict()  # digests of sessions that were logged out

    @property
    def cookie(self) -> str:
        """The name of the cookie; browsers share cookies between the ports of a machine."""
        prefix = "__Host-" if self._settings.is_behind_https else ""
        return f"{prefix}shoal_{self._settings.port}"

    def role_of_token(self, given: str) -> Role | None:
        """Return whose token this is, in the same time whatever is wrong with it."""
        digest = _digest(given)
        matches = {role: hmac.compare_digest(digest, known) for role, known in self._digests.items()}
        return next((self._as_role(role) for role, is_it in matches.items() if is_it), None)

    def role_of_cookie(self, value: str) -> Role | None:
        """Return whose session this is, None if it is forged or over."""
        for role, signer in self._signers.items():
            try:
                said = signer.unsign(value, max_age=int(SESSION.total_seconds()))
            except BadSignature:
                continue
            if said.decode().partition(" ")[0] == role and _digest(value) not in self._ended:
                return self._as_role(role)
        return None

    def session(self, role: Role) -> str:
        """Return the cookie of a new session."""
        return self._signers[role].sign(f"{role} {secrets.token_urlsafe(12)}").decode()

    def end_session(self, value: str) -> None:
        """Refuse a session's cookie from now on; what is no session is not remembered."""
        if self.role_of_cookie(value):
            self._ended[_digest(value)] = None
            if len(self._ended) > MAX_ENDED_SESSIONS:
                self._ended.popitem(last=False)

    def role_of(self, headers: Mapping[str, str], cookies: Mapping[str, str]) -> Role | None:
        """Return the role of whoever sent these; a token is stronger than a cookie."""
        given = headers.get("authorization", "")
        if given.lower().startswith(BEARER):
            return self.role_of_token(given[len(BEARER) :].strip())
        value = cookies.get(self.cookie)
        return self.role_of_cookie(value) if value else None

    def _as_role(self, role: str) -> Role:
        return "operator" if role == "operator" else "reader"


def guest_of(request: Request) -> Guest:
    """Return who is asking; the guard has let nobody else in."""
    guest: Guest = request.scope["state"]["guest"]
    return guest


def operator(request: Request) -> Guest:
    """Return who is asking, if they may change things; else refuse with 403."""
    guest = guest_of(request)
    check_operator(site_of(request), guest)
    return guest


def check_operator(site: Site, guest: Guest) -> None:
    """Refuse with 403 whoever may only look."""
    if site.settings.read_only:
        raise Refused(
            403, "ReadOnly", "This server only shows. Start it without --read-only to change things."
        )
    if guest.role != "operator":
        raise Refused(403, "Forbidden", "A reader may look and not change. Use the operator's token.")


def may_act(request: Request) -> bool:
    """Tell whether the guest may change things, so that a page shows no button that would be refused."""
    return guest_of(request).role == "operator" and not site_of(request).settings.read_only


def _digest(text: str) -> bytes:
    return sha256(text.encode()).digest()
