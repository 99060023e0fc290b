"""Known secrets, from settings and environment: they are redacted in every text that is logged or stored."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shoal.core.proxies import ProxyRules
from shoal.core.redact import passwords_in
from shoal.core.secrets import header_secrets, secret_headers, without_secrets
from shoal.fetch.tokens.token import split
from shoal.scrape.settings.scraper import ScraperSettings
from shoal.scrape.settings.tokens import TokenSettings

MAX_SECRETS = 1_000  # of one kind; passwords in URLs and secret headers are redacted in any case
_SECRET_VARIABLES = ("SHOAL_SECRET", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


def secrets_of(queue_url: str, headers: Mapping[str, str]) -> list[str]:
    """Return the secrets in the queue's URL and in the headers."""
    return [secret for secret in (*passwords_in(queue_url), *header_secrets(headers)) if secret]


def all_secrets(queue_url: str, settings: ScraperSettings, environment: Mapping[str, str]) -> list[str]:
    """Return every secret of a run that is known before it starts."""
    return [
        *secrets_of(queue_url, settings.headers),
        *(secret for site in settings.sites.rules.values() for secret in header_secrets(site.headers)),
        *(_tokens(settings.tokens, environment) if settings.tokens else ()),
        *(_proxies(settings.proxies) if settings.proxies else ()),
        *(secret for rules in settings.sites.proxies.values() for secret in _proxies(rules)),
        *_variables(environment),
    ]


def headers_towards(settings: ScraperSettings, url: str, *, origin: str | None) -> Mapping[str, str]:
    """Return the headers for a URL; secrets only where a link from `origin` carries them.

    The secrets of a site may go to it out of scope too, because it is named; nothing goes from https to http.
    """
    every, scope = settings.headers_for(url), settings.scope
    if not secret_headers(every):
        return every
    if scope.secure_url(url, origin=origin) != url:
        return without_secrets(every)
    if scope.allows(url, origin=origin):
        return every
    return {**without_secrets(settings.headers), **settings.sites.find(url).headers}


def _tokens(settings: TokenSettings, environment: Mapping[str, str]) -> list[str]:
    texts = list(settings.given)
    texts += split(environment.get(settings.variable, "")) if settings.variable else []
    texts += split(_read_text(settings.file)) if settings.file else []
    return texts[:MAX_SECRETS]


def _proxies(rules: ProxyRules) -> list[str]:
    lines: Iterable[str] = rules.listed or (_read_text(rules.file).splitlines() if rules.file else ())
    return [secret for line in list(lines)[:MAX_SECRETS] for secret in passwords_in(line)]


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    for name in _SECRET_VARIABLES:
        value = environment.get(name, "")
        yield from {value, *(part.partition("=")[2] for part in value.split(","))} - {""}


def _read_text(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""
