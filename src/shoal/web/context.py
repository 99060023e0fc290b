"""Settings of the web server, and the context that every request handler gets."""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from typing import Any, Self

from starlette.requests import Request

from shoal.core.errors import InvalidSetting
from shoal.core.redact import Redact, redactor
from shoal.fleet.app import App
from shoal.fleet.project.scrapers import ScraperRows
from shoal.web.sampler import DeadErrorReader, Sampler
from shoal.worker.secrets import secrets_of

MIN_TOKEN_LENGTH = 20
MAX_WORKERS = 8  # that users may start on the server's machine, by default
LOOPBACK = ("127.0.0.1", "localhost", "::1")
HTTP, HTTPS = 80, 443


@dataclass(frozen=True, slots=True, kw_only=True)
class WebSettings:
    """Address, allowed Host names and tokens of the server; create it with `read`."""

    host: str = "127.0.0.1"
    port: int = 8700
    allowed_hosts: Sequence[str] = ()  # NAME or NAME:PORT, in addition to loopback and the bound address
    operator_token: str = field(repr=False)
    reader_token: str | None = field(default=None, repr=False)
    is_chosen: bool = True  # False if the operator token was generated
    read_only: bool = False
    is_behind_https: bool = False
    max_workers: int = MAX_WORKERS  # on this machine, of all runs together; 0 for none

    @classmethod
    def read(cls, *, operator_token: str | None = None, **given: Any) -> Self:
        """Validate the settings; generates a missing token, on loopback only. Raises InvalidSetting."""
        token = operator_token or secrets.token_urlsafe(32)
        settings = cls(operator_token=token, is_chosen=operator_token is not None, **given)
        if operator_token is None and not is_loopback(settings.host):
            raise InvalidSetting(
                "--host",
                f"{settings.host} is reachable from other machines, so you must set a token. "
                'Run: export SHOAL_WEB_TOKEN="$(openssl rand -hex 24)"',
            )
        _check_token("SHOAL_WEB_TOKEN", operator_token)
        _check_token("SHOAL_WEB_READER_TOKEN", settings.reader_token)
        if settings.reader_token == settings.operator_token:
            raise InvalidSetting("SHOAL_WEB_READER_TOKEN", "must differ from the operator token")
        for name in settings.allowed_hosts:
            _check_name(name)
        return settings

    @property
    def scheme(self) -> str:
        """The URL scheme that browsers use."""
        return "https" if self.is_behind_https else "http"

    @property
    def authorities(self) -> frozenset[str]:
        """Every accepted `Host` header, in lower case."""
        default = HTTPS if self.is_behind_https else HTTP
        own = {_authority(name, self.port) for name in (*LOOPBACK, self.host)}
        if self.port == default:
            own |= {_bracketed(name) for name in (*LOOPBACK, self.host)}
        given = {form for name in self.allowed_hosts for form in _forms(name, self.port)}
        return frozenset(name.lower() for name in own | given)

    @property
    def tokens(self) -> dict[str, str]:
        """The token of each role."""
        reader = {"reader": self.reader_token} if self.reader_token else {}
        return {"operator": self.operator_token, **reader}


@dataclass(frozen=True, slots=True)
class WebContext:
    """An app with its sampler and the settings of its web server."""

    app: App
    sampler: Sampler
    settings: WebSettings
    scraper_rows: ScraperRows = field(init=False)
    dead_errors: DeadErrorReader = field(init=False)
    starts: dict[str, asyncio.Task[Any]] = field(default_factory=dict, init=False)  # in progress, by run id

    def __post_init__(self) -> None:
        object.__setattr__(self, "scraper_rows", ScraperRows(self.app.project))
        object.__setattr__(self, "dead_errors", DeadErrorReader(self.app.queue))

    @property
    def redact(self) -> Redact:
        """Replaces every secret the server knows, anywhere in a text."""
        known = [*self.settings.tokens.values(), *secrets_of(self.app.queue_url, {})]
        return redactor(known)


def context_of(request: Request) -> WebContext:
    """Return the context of a request."""
    context: WebContext = request.app.state.context
    return context


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    try:
        return ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def _check_token(name: str, token: str | None) -> None:
    if token is None:
        return
    if len(token) < MIN_TOKEN_LENGTH or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidSetting(
            name,
            f"must be at least {MIN_TOKEN_LENGTH} printable characters without spaces, and hard to guess. "
            f'Run: export {name}="$(openssl rand -hex 24)"',
        )


def _check_name(name: str) -> None:
    if not name or any(char in name for char in "/*@ \t") or not name.isprintable():
        raise InvalidSetting("--allow-host", f"must be NAME or NAME:PORT such as shoal.example, not {name!r}")


def _forms(name: str, port: int) -> list[str]:
    """Return the Host headers of a name: with its own port if it has one, else with ours and without."""
    bare = name.rpartition("]")[2] if name.startswith("[") else name
    if ":" in bare and bare.count(":") == 1:
        return [name]
    return [_bracketed(name), _authority(name, port)]


def _authority(name: str, port: int) -> str:
    return f"{_bracketed(name)}:{port}"


def _bracketed(name: str) -> str:
    return f"[{name}]" if ":" in name and not name.startswith("[") else name
