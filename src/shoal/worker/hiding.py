"""What is known to be secret, by where it was given: it is hidden wherever a text is written down."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from shoal.core.redact import passwords_in
from shoal.core.secrets import header_secrets
from shoal.core.ways import ProxyRules
from shoal.scrape.settings import ScraperSettings
from shoal.scrape.tokens import TokenSettings

MOST = 1_000  # secrets of one kind; what stands in a URL or a header is hidden whatever it is
_SECRET_VARIABLES = ("SHOAL_SECRET", "OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_TRACES_HEADERS")


def secrets_of(queue_url: str, headers: Mapping[str, str]) -> list[str]:
    """Return the secrets that are known by where they were given: the queue's address, and the headers."""
    return [secret for secret in (*passwords_in(queue_url), *header_secrets(headers)) if secret]


def all_secrets(queue_url: str, settings: ScraperSettings, environment: Mapping[str, str]) -> list[str]:
    """Return every secret of a run that is known before it begins."""
    return [
        *secrets_of(queue_url, settings.headers),
        *(_tokens(settings.tokens, environment) if settings.tokens else ()),
        *(_proxies(settings.proxies) if settings.proxies else ()),
        *_variables(environment),
    ]


def _tokens(told: TokenSettings, environment: Mapping[str, str]) -> list[str]:
    from shoal.fetch.tokens.token import split  # most runs do without

    texts = list(told.given)
    texts += split(environment.get(told.variable, "")) if told.variable else []
    texts += split(_text(told.file)) if told.file else []
    return texts[:MOST]


def _proxies(rules: ProxyRules) -> list[str]:
    lines: Iterable[str] = rules.listed or (_text(rules.file).splitlines() if rules.file else ())
    return [secret for line in list(lines)[:MOST] for secret in passwords_in(line)]


def _variables(environment: Mapping[str, str]) -> Iterator[str]:
    for name in _SECRET_VARIABLES:
        value = environment.get(name, "")
        yield from {value, *(part.partition("=")[2] for part in value.split(","))} - {""}


def _text(path: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return path.read_text()
    return ""
