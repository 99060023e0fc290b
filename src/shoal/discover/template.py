"""Templates such as "https://example.com/{state}/{city:slug}": texts with places for values."""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from string import Formatter
from urllib.parse import quote

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint

_NOT_SLUG = re.compile(r"[^a-z0-9]+")


def slug(value: str) -> str:
    """Return a value as sites write it in a path: "São Paulo" is sao-paulo."""
    plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode().lower()
    return _NOT_SLUG.sub("-", plain).strip("-")


def _encoded(value: str) -> str:
    return quote(value, safe="")


@lru_cache(maxsize=65_536)
def _in_url(how: str, value: str) -> str:
    return _URL_WAYS[how](value)


def _in_text(how: str, value: str) -> str:
    return _TEXT_WAYS[how](value)


_URL_WAYS: dict[str, Callable[[str], str]] = {
    "": _encoded,
    "slug": slug,
    "lower": lambda value: _encoded(value.lower()),
    "upper": lambda value: _encoded(value.upper()),
    "raw": str,
}
_TEXT_WAYS: dict[str, Callable[[str], str]] = {
    "": str,
    "slug": slug,
    "lower": str.lower,
    "upper": str.upper,
    "raw": str,
}


class Template:
    """A text with {names} in it; in a URL values are percent-encoded, unless it says {name:raw}.

    {name:slug}, {name:lower} and {name:upper} change the value first. Two braces stand for one.
    """

    def __init__(self, text: str, *, is_url: bool, key: str = "template") -> None:
        self._value = _in_url if is_url else _in_text
        self._key, self._text = key, text
        self._parts = [self._part(*part) for part in self._parsed()]
        self.names = tuple(dict.fromkeys(name for _, name, _ in self._parts if name))

    def check(self, known: Collection[str]) -> None:
        """Raise InvalidSetting when a name is not known."""
        for name in self.names:
            if name not in known:
                raise InvalidSetting(self._key, f"names {{{name}}}, which no axis gives. {hint(name, known)}")

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with its values."""
        return "".join(
            [f"{text}{self._value(how, values[name])}" if name else text for text, name, how in self._parts]
        )

    def _parsed(self) -> list[tuple[str, str | None, str | None, str | None]]:
        try:
            return list(Formatter().parse(self._text))
        except ValueError as error:
            raise InvalidSetting(
                self._key, f"{self._text!r} is broken: {error}; write {{{{ for {{"
            ) from error

    def _part(
        self, text: str, name: str | None, how: str | None, conversion: str | None
    ) -> tuple[str, str, str]:
        if name is None:
            return text, "", ""
        if not name.isidentifier() or conversion:
            raise InvalidSetting(self._key, f"holds {{{name}}}, which is not a name such as {{state}}")
        if (how or "") not in _URL_WAYS:
            raise InvalidSetting(
                self._key, f"holds {{{name}:{how}}}. {hint(how or '', filter(None, _URL_WAYS))}"
            )
        return text, name, how or ""
