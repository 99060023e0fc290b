"""An API token, where it is sent, and where it comes from."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.tasks import call_function
from shoal.core.urls import origin_of

MAX_TOKENS = 10_000
MAX_TOKEN_LENGTH = 8_192

Provider = Callable[[], Any]  # returns tokens, or an awaitable of them


@dataclass(frozen=True, slots=True)
class Token:
    """A secret, and its names that may be shown."""

    number: int
    text: str = field(repr=False)
    key: str  # the same for every worker; the text cannot be derived from it

    @property
    def name(self) -> str:
        """The name to show."""
        return f"token {self.number} ({self.key[:6]})"


def make_tokens(texts: Iterable[str], salt: bytes, bucket: str = "") -> list[Token]:
    """Return tokens by their texts, without duplicates; those of another bucket have other keys."""
    unique = list(dict.fromkeys(texts))
    return [Token(number, text, key_of(bucket + text, salt)) for number, text in enumerate(unique, 1)]


def key_of(text: str, salt: bytes) -> str:
    """Return a keyed hash that stands for a secret where others may read it."""
    return blake2b(text.encode(), key=salt, digest_size=10).hexdigest()


class TokenPlacement(msgspec.Struct, frozen=True, kw_only=True):
    """Where in a request a token is put, and the origins that it is sent to: no others."""

    origins: frozenset[str]  # such as https://api.example.com
    header: str = "Authorization"
    form: str = "Bearer {}"
    query: str | None = None  # the name of a parameter, which replaces the header

    def covers(self, url: str) -> bool:
        """Tell whether tokens are sent to this URL; robots.txt is fetched without."""
        return origin_of(url) in self.origins and urlsplit(url).path != "/robots.txt"

    def similar(self, origin: str) -> str | None:
        """Return an origin of the tokens that differs from this one by its scheme or port, or None."""
        if origin in self.origins:
            return None
        host = urlsplit(origin).hostname
        return next((one for one in sorted(self.origins) if urlsplit(one).hostname == host), None)

    def add_token(self, url: str, headers: Mapping[str, str], token: Token) -> tuple[str, Mapping[str, str]]:
        """Return the URL and the headers with a token."""
        if self.query is None:
            others = {name: text for name, text in headers.items() if name.lower() != self.header.lower()}
            return url, {**others, self.header: self.form.format(token.text)}
        parts = urlsplit(url)
        mine = f"{quote(self.query, safe='')}={quote(token.text, safe='')}"
        query = "&".join([*self._others(parts.query), mine])
        return urlunsplit(parts._replace(query=query)), headers

    def remove_token(self, url: str) -> str:
        """Return a URL without the parameter that holds a token."""
        if self.query is None:
            return url
        parts = urlsplit(url)
        return urlunsplit(parts._replace(query="&".join(self._others(parts.query))))

    def _others(self, query: str) -> list[str]:
        name = f"{quote(self.query or '', safe='')}="
        return [part for part in query.split("&") if part and not part.startswith(name)]


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSource:
    """Where tokens come from: a list, a file, an environment variable, or a function."""

    given: Sequence[str] = field(default=(), repr=False)
    file: Path | None = None
    variable: str | None = None
    provider: Provider | None = None
    bucket: str = ""

    @property
    def read_again(self) -> float:
        """After how many seconds the source is read again."""
        if self.file:
            return 5.0
        return 60.0 if self.provider else float("inf")

    @property
    def advice(self) -> str:
        """What to do when no token is left."""
        if self.file:
            return f"Write new ones into {self.file}: the file is read again within seconds"
        if self.provider:
            return "The function is called again within a minute"
        return "Provide new ones, then continue the run with --resume"

    async def read(self) -> list[str]:
        """Return the tokens; raises InvalidSetting, whose text contains none."""
        if self.provider:
            return check_tokens(await _call_provider(self.provider))
        if self.file:
            return check_tokens(split(_text(self.file)))
        if self.variable:
            found = split(os.environ.get(self.variable, ""))
            if not found:
                raise InvalidSetting(
                    self.variable, "holds no token. Set it to one, or to several separated by commas"
                )
            return check_tokens(found)
        return check_tokens(self.given)


def split(text: str) -> list[str]:
    """Return the tokens of a text, separated by lines, commas or spaces; # starts a comment."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    return [word for line in lines for word in line.replace(",", " ").split()]


def check_tokens(tokens: Any) -> list[str]:
    """Return tokens that can be sent; raises InvalidSetting, whose text contains none."""
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise InvalidSetting("tokens", "must give a list of tokens")
    found = list(tokens)
    for number, token in enumerate(found, 1):
        if not isinstance(token, str) or not _can_be_sent(token):
            raise InvalidSetting("tokens", f"contain one that cannot be sent: number {number}")
    if not found:
        raise InvalidSetting("tokens", "are empty")
    if len(found) > MAX_TOKENS:
        raise InvalidSetting("tokens", f"are more than {MAX_TOKENS:,}")
    return found


def _can_be_sent(token: str) -> bool:
    return 0 < len(token) <= MAX_TOKEN_LENGTH and token.isascii() and token.isprintable() and " " not in token


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidSetting("tokens", f"cannot be read from {file}: {reason}") from error


async def _call_provider(provider: Provider) -> Any:
    try:
        return await call_function(provider)
    except Exception as error:
        # Not its text, which may contain a secret.
        raise InvalidSetting("tokens", f"function raised {type(error).__name__}") from None
