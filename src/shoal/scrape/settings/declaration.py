"""How a setting of a scraper is declared: once, with all that is to be known of it.

Its reader, default and help; whether a run may change it while it works; whether users of the API may set it,
and whether reports show it; its option on the command line. Everything else is derived from the declaration.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidSetting
from shoal.core.urls import is_object_url
from shoal.core.values import hint

T = TypeVar("T")
Reader = Callable[[str, Any], Any]
OFF, ON = frozenset({"off", "none", "false", "no"}), frozenset({"on", "true", "yes"})

# Sections of `--help`; the commands that start workers have the first, those that make a run the second too.
FETCHING, SEEDS, RECORDING = "Fetching", "Seeds", "Caching and recording"


class SettingOption(msgspec.Struct, frozen=True):
    """The option of a setting on the command line, which does what `--set NAME=VALUE` does."""

    section: str
    metavar: str
    help: str
    variable: str | None = None  # of the environment, which has its value if it is not typed


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """What is declared of a setting, besides its type."""

    read: Reader  # raises InvalidSetting, which says what to write
    help: str  # in the reference; Markdown
    live: bool = False  # all workers of a run follow a change while they work
    fixed: str = ""  # why it cannot change once a run exists, not even when the run is resumed
    web: bool = False  # for users of the API: names no file, program or secret, and allows no private network
    shown: bool = False  # in reports: a number, a duration or a word
    hidden: bool = False  # reports only say that it is set, because it may hold a secret
    several: bool = False  # a form takes several values with spaces between them
    site: Reader | None = None  # for settings of some hosts
    is_secret: Callable[[Any], bool] = lambda value: False  # so that a run does not store it
    absolute: Callable[[Any], Any] = lambda value: value  # with paths that mean the same in every folder
    option: SettingOption | None = None
    name: str = ""
    field: str = ""  # the attribute that has its value: `rate` is another way to write `delay`


def setting(
    default: Any, read: Reader, help: str, *, also: Mapping[str, Setting] | None = None, **facts: Any
) -> Any:
    """Declare a field of a class of settings; `also` are other ways to write it, by their names."""
    about = {"setting": Setting(read=read, help=help, **facts), "also": also or {}}
    is_mutable = isinstance(default, Mapping)
    return field(
        default=MISSING if is_mutable else default,
        default_factory=(lambda: default) if is_mutable else MISSING,
        metadata=about,
    )


def declared(kind: type[Any]) -> dict[str, Setting]:
    """Return the settings that a class declares, by name; another way to write one comes before it."""
    found: dict[str, Setting] = {}
    for one in fields(kind):
        if "setting" in one.metadata:
            for name, declaration in (*one.metadata["also"].items(), (one.name, one.metadata["setting"])):
                found[name] = replace(declaration, name=name, field=one.name)
    return found


class CompactSetting(msgspec.Struct, Generic[T], frozen=True, kw_only=True):
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
    build: Callable[[str, dict[str, Any]], T] | None = None  # if `kind(**fields)` will not do

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


def absolute_path(value: Any) -> Any:
    """Return a setting that is one path, or an address in object storage."""
    if isinstance(value, Path):
        return str(value.absolute())
    if not isinstance(value, str) or value.lower() in OFF or is_object_url(value):
        return value
    return str(Path(value).absolute())


def absolute_words(value: Any) -> Any:
    """Return a setting that is written in words or as a mapping, of which some are paths."""
    if isinstance(value, Mapping):
        places = ("from", "place", "torrc")
        return {name: absolute_words(one) if name in places else one for name, one in value.items()}
    if not isinstance(value, str) or value.lower() in OFF:
        return str(value.absolute()) if isinstance(value, Path) else value
    if Path(value).is_file():
        return str(Path(value).absolute())
    return " ".join(map(_absolute_word, value.split()))


def _absolute_word(word: str) -> str:
    for prefix in ("disk:", "file:", "torrc="):
        if word.startswith(prefix):
            return f"{prefix}{Path(word.removeprefix(prefix)).absolute()}"
    return str(Path(word).absolute()) if Path(word).is_file() else word
