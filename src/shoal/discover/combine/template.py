"""Templates such as "https://example.com/{state}/{city:slug}": texts with placeholders for values."""

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
    """Return a value as sites write it in a path: "São Paulo" becomes sao-paulo."""
    plain = unicodedata.normalize("NFKD", value).encode("ascii", "ignore").decode().lower()
    return _NOT_SLUG.sub("-", plain).strip("-")


_FORMATS: dict[str, Callable[[str], str]] = {
    "": str,
    "slug": slug,
    "lower": str.lower,
    "upper": str.upper,
    "raw": str,
}


@lru_cache(maxsize=65_536)
def _format_in_url(format_: str, value: str) -> str:
    text = _FORMATS[format_](value)
    return text if format_ == "raw" else quote(text, safe="")


def _format_in_text(format_: str, value: str) -> str:
    return _FORMATS[format_](value)


class Template:
    """A text with {names}; in a URL, values are percent-encoded unless written as {name:raw}.

    {name:slug}, {name:lower} and {name:upper} convert the value first. A doubled brace is a literal one.
    """

    def __init__(self, text: str, *, is_url: bool, key: str = "template") -> None:
        self._format = _format_in_url if is_url else _format_in_text
        self._key, self._text = key, text
        self._parts = [self._check_part(*part) for part in self._parse()]
        self.names = tuple(dict.fromkeys(name for _, name, _ in self._parts if name))

    def check(self, known: Collection[str]) -> None:
        """Raise InvalidSetting if a name is unknown."""
        for name in self.names:
            if name not in known:
                raise InvalidSetting(self._key, f"uses {{{name}}}, which no axis has. {hint(name, known)}")

    def fill(self, values: Mapping[str, str]) -> str:
        """Return the text with the values filled in."""
        return "".join(
            [
                f"{text}{self._format(format_, values[name])}" if name else text
                for text, name, format_ in self._parts
            ]
        )

    def _parse(self) -> list[tuple[str, str | None, str | None, str | None]]:
        try:
            return list(Formatter().parse(self._text))
        except ValueError as error:
            raise InvalidSetting(
                self._key, f"{self._text!r} is broken: {error}; write {{{{ for {{"
            ) from error

    def _check_part(
        self, text: str, name: str | None, format_: str | None, conversion: str | None
    ) -> tuple[str, str, str]:
        if name is None:
            return text, "", ""
        if not name.isidentifier() or conversion:
            raise InvalidSetting(self._key, f"holds {{{name}}}, which is not a name such as {{state}}")
        if (format_ or "") not in _FORMATS:
            raise InvalidSetting(
                self._key, f"holds {{{name}:{format_}}}. {hint(format_ or '', filter(None, _FORMATS))}"
            )
        return text, name, format_ or ""
