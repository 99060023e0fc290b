"""A token, where it goes, and where it comes from."""

import asyncio
import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit, urlunsplit

from shoal.core.errors import InvalidSetting

MOST_TOKENS = 10_000
LONGEST_TOKEN = 8_192

Provider = Callable[[], Any]  # returns tokens, or an awaitable of them


@dataclass(frozen=True, slots=True)
class Token:
    """A secret, and the names by which it is spoken of."""

    number: int
    text: str = field(repr=False)
    key: str  # the same for every worker, and no way back to the text

    @property
    def name(self) -> str:
        """What people call it."""
        return f"token {self.number} ({self.key[:6]})"


def numbered(texts: Iterable[str], salt: bytes, bucket: str = "") -> list[Token]:
    """Return tokens by their texts, each once; those of another bucket have other names."""
    unique = list(dict.fromkeys(texts))
    return [Token(number, text, key_of(bucket + text, salt)) for number, text in enumerate(unique, 1)]


def key_of(text: str, salt: bytes) -> str:
    """Return what stands for a secret where others may read."""
    return blake2b(text.encode(), key=salt, digest_size=10).hexdigest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where in a request a token goes, and to which origins: it is sent to no other."""

    origins: frozenset[str]  # such as https://api.example.com
    header: str = "Authorization"
    form: str = "Bearer {}"
    query: str | None = None  # the name of a parameter, which takes the place of the header

    def admits(self, url: str) -> bool:
        """Tell whether a URL is one of those that the tokens are for; robots.txt is asked for without."""
        return origin_of(url) in self.origins and urlsplit(url).path != "/robots.txt"

    def dressed(self, url: str, headers: Mapping[str, str], token: Token) -> tuple[str, Mapping[str, str]]:
        """Return the URL and the headers that carry a token."""
        if self.query is None:
            others = {name: text for name, text in headers.items() if name.lower() != self.header.lower()}
            return url, {**others, self.header: self.form.format(token.text)}
        parts = urlsplit(url)
        mine = f"{quote(self.query, safe='')}={quote(token.text, safe='')}"
        query = "&".join([*self._others(parts.query), mine])
        return urlunsplit(parts._replace(query=query)), headers

    def bare(self, url: str) -> str:
        """Return a URL without the parameter that holds a token."""
        if self.query is None:
            return url
        parts = urlsplit(url)
        return urlunsplit(parts._replace(query="&".join(self._others(parts.query))))

    def _others(self, query: str) -> list[str]:
        name = f"{quote(self.query or '', safe='')}="
        return [part for part in query.split("&") if part and not part.startswith(name)]


def origin_of(url: str) -> str:
    """Return the scheme and the host of a canonical URL."""
    return "/".join(url.split("/", 3)[:3])


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """Where tokens come from: a list, a file, a variable of the environment, or a function."""

    given: Sequence[str] = field(default=(), repr=False)
    file: Path | None = None
    variable: str | None = None
    provider: Provider | None = None
    bucket: str = ""

    @property
    def read_again(self) -> float:
        """After how many seconds it is worth asking again."""
        if self.file:
            return 5.0
        return 60.0 if self.provider else float("inf")

    @property
    def advice(self) -> str:
        """What to do when no token is left."""
        if self.file:
            return f"Write new ones into {self.file}: they are found there within seconds"
        if self.provider:
            return "New ones are asked for within a minute"
        return "Give new ones, and go on with: shoal run … --resume"

    async def read(self) -> list[str]:
        """Return the tokens; raises InvalidSetting, which shows none."""
        if self.provider:
            return checked(await _provided(self.provider))
        if self.file:
            return checked(split(_text(self.file)))
        if self.variable:
            found = split(os.environ.get(self.variable, ""))
            if not found:
                raise InvalidSetting(
                    self.variable, "holds no token. Set it to one, or to several with commas"
                )
            return checked(found)
        return checked(self.given)


def split(text: str) -> list[str]:
    """Return the tokens of a text: one a line, or with commas or spaces between them; # begins a comment."""
    lines = (line.partition("#")[0] for line in text.splitlines())
    return [word for line in lines for word in line.replace(",", " ").split()]


def checked(tokens: Any) -> list[str]:
    """Return tokens that can be sent; raises InvalidSetting, which shows none."""
    if isinstance(tokens, str) or not isinstance(tokens, Iterable):
        raise InvalidSetting("tokens", "must give a list of tokens")
    found = list(tokens)
    for number, token in enumerate(found, 1):
        if not isinstance(token, str) or not _can_be_sent(token):
            raise InvalidSetting("tokens", f"hold one that cannot be sent: the one in place {number}")
    if not found:
        raise InvalidSetting("tokens", "hold no token")
    if len(found) > MOST_TOKENS:
        raise InvalidSetting("tokens", f"are more than {MOST_TOKENS:,}")
    return found


def _can_be_sent(token: str) -> bool:
    return 0 < len(token) <= LONGEST_TOKEN and token.isascii() and token.isprintable() and " " not in token


def _text(file: Path) -> str:
    try:
        return file.read_text()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
        raise InvalidSetting("tokens", f"cannot be read from {file}: {reason}") from error


async def _provided(provider: Provider) -> Any:
    try:
        if inspect.iscoroutinefunction(provider):
            return await provider()
        found = await asyncio.to_thread(provider)
        return await found if inspect.isawaitable(found) else found
    except Exception as error:
        # Not what it says, which may hold a secret.
        raise InvalidSetting("tokens", f"are not given: the function raised {type(error).__name__}") from None
