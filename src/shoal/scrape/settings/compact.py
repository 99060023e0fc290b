"""Reads a setting that may be an object, a mapping, or compact text such as "10m disk:pages 2GB"."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from shoal.core.errors import InvalidSetting
from shoal.core.values import hint

T = TypeVar("T")
Reader = Callable[[str, Any], Any]
OFF, ON = frozenset({"off", "none", "false", "no"}), frozenset({"on", "true", "yes"})


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactSetting(Generic[T]):
    """The forms in which one setting can be written.

    None, False and "off" turn it off; True and "on" take every default. Text consists of words: NAME=VALUE,
    or a bare one. No error shows the text, because it may hold a password or a token.
    """

    kind: type[T]
    fields: Mapping[str, Reader]
    example: str  # what to write
    main: str | None = None  # the field of a value that is neither text nor a mapping
    name_of: Callable[[str], str | None] = lambda word: None  # the field of a bare word
    lists: Collection[str] = ()  # fields with several values, separated by commas
    build: Callable[[str, dict[str, Any]], T] | None = field(default=None)  # if `kind(**fields)` will not do

    def read(self, key: str, value: Any) -> T | None:
        """Return the setting, None if it is off; raises InvalidSetting."""
        if isinstance(value, self.kind):
            return value
        word = value.strip().lower() if isinstance(value, str) else None
        if value is None or value is False or word in OFF:
            return None
        if value is True or word in ON:
            return self._from_mapping(key, {})
        if isinstance(value, str):
            return self._from_mapping(key, self._parse(key, value))
        if isinstance(value, Mapping):
            return self._from_mapping(key, value)
        if self.main is None:
            raise self._refusal(key)
        return self._from_mapping(key, {self.main: value})

    def _parse(self, key: str, text: str) -> dict[str, Any]:
        given: dict[str, Any] = {}
        for word in text.split():
            name, value = self._pair(word)
            if name is None or name in given:
                raise self._refusal(key)
            given[name] = value.split(",") if name in self.lists else value
        if not given:
            raise self._refusal(key)
        return given

    def _pair(self, word: str) -> tuple[str | None, str]:
        bare = self.name_of(word)
        if bare is not None:
            return bare, word
        name, equals, value = word.partition("=")
        return (name, value) if equals else (None, word)

    def _from_mapping(self, key: str, given: Mapping[str, Any]) -> T:
        for name in given:
            if name not in self.fields:
                raise InvalidSetting(key, f"has no {str(name)!r}. {hint(str(name), self.fields)}")
        fields = {name: self.fields[name](f"{key}.{name}", value) for name, value in given.items()}
        return self.build(key, fields) if self.build else self.kind(**fields)

    def _refusal(self, key: str) -> InvalidSetting:
        return InvalidSetting(key, f"must look like {self.example}")


def optional(reader: Reader) -> Reader:
    """Return a reader that also accepts None, for no value."""
    return lambda key, value: None if value is None else reader(key, value)
