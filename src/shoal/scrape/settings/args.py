"""The arguments of a scraper: declared with their types, given when a run is started, stored with it."""

import dataclasses
import keyword
from collections.abc import Mapping
from contextlib import suppress
from copy import deepcopy
from math import isfinite
from typing import Any, get_origin, get_type_hints

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.core.model import NOTHING
from shoal.core.text import shorten
from shoal.core.values import hint, read_flag

MAX_ARGS = 100


class NoArgs(msgspec.Struct, frozen=True):
    """The arguments of a scraper that declares none."""


class DeclaredArgs:
    """The names, types and defaults of a scraper's arguments.

    They are declared as a mapping of names to types or defaults, or as a dataclass or msgspec.Struct.
    """

    def __init__(self, scraper: str, declared: Any) -> None:
        self._scraper = scraper
        self._kind = _read_kind(declared)
        try:
            self._hints = get_type_hints(self._kind)
        except (NameError, TypeError) as error:
            raise InvalidSetting("args", f"have a type that cannot be read: {error}") from error
        self._required = _required_names(self._kind)

    @property
    def names(self) -> list[str]:
        """The names of the arguments."""
        return list(self._hints)

    def __bool__(self) -> bool:
        return bool(self._hints)

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given values, each converted to its type; raises InvalidSetting."""
        return {name: self._convert(name, value) for name, value in given.items()}

    def read(self, given: Mapping[str, Any]) -> Any:
        """Return all arguments, with defaults for those not given; raises InvalidSetting."""
        values = self.check(given)
        for name in self._required:
            if name not in values:
                raise InvalidSetting(
                    f"argument {name!r}",
                    f"of {self._scraper!r} is missing. Add -a {name}=VALUE, in Python args={{{name!r}: …}}",
                )
        try:
            return self._kind(**values)
        except (ValueError, TypeError) as error:
            raise InvalidSetting("args", f"were refused by {self._kind.__name__}: {error}") from error

    def defaults(self) -> Any:
        """Return the arguments when none is given; None if one is required."""
        return None if self._required else self.read(NOTHING)

    def restore(self, stored: Mapping[str, Any]) -> Any:
        """Return the arguments that a run has stored; those that are no longer declared are ignored."""
        return self.read({name: value for name, value in stored.items() if name in self._hints})

    def _convert(self, name: str, value: Any) -> Any:
        key = f"argument {name!r}"
        if not self._hints:
            raise InvalidSetting(
                key,
                f"was given, but {self._scraper!r} has no arguments. Declare it: "
                f"Scraper({self._scraper!r}, args={{{name!r}: str}})",
            )
        if name not in self._hints:
            raise InvalidSetting(key, f"is unknown to {self._scraper!r}. {hint(name, self._hints)}")
        wanted = self._hints[name]
        if wanted is bool:
            return read_flag(key, value)
        for candidate in _candidates(value, wanted):
            try:
                found = msgspec.convert(candidate, wanted, strict=False)
                if isinstance(found, float) and not isfinite(found):
                    continue  # JSON, in which arguments are stored, has no such number
                return found
            except (msgspec.ValidationError, TypeError):
                continue
        raise InvalidSetting(key, f"must be {_type_name(wanted)}, got {shorten(repr(value), 60)}")


class OpenArgs(DeclaredArgs):
    """Arguments of any name, which stay as they were given."""

    def __init__(self, scraper: str) -> None:
        super().__init__(scraper, None)

    def __bool__(self) -> bool:
        return True

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given values as they are."""
        return dict(given)

    def read(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the given values as they are."""
        return dict(given)

    def restore(self, stored: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments that a run has stored."""
        return dict(stored)


def dump_args(args: Any) -> dict[str, Any]:
    """Return arguments as plain JSON types."""
    found: dict[str, Any] = msgspec.to_builtins(args)
    return found


def _candidates(value: Any, wanted: Any) -> list[Any]:
    """Return what a value may stand for: itself, JSON in a text, or the only element of a list."""
    found = [value]
    if isinstance(value, str) and wanted is not str:
        with suppress(msgspec.DecodeError):
            found.append(msgspec.json.decode(value))
    if isinstance(value, str) and (get_origin(wanted) or wanted) in (list, tuple, set, frozenset):
        found.append([value])
    return found


def _read_kind(declared: Any) -> type[Any]:
    if declared is None:
        return NoArgs
    if isinstance(declared, type) and (
        dataclasses.is_dataclass(declared) or issubclass(declared, msgspec.Struct)
    ):
        return declared
    if not isinstance(declared, Mapping):
        raise InvalidSetting(
            "args",
            "must be names with types or defaults, such as {'category': str, 'pages': 3}, or a dataclass, "
            f"got {shorten(repr(declared), 60)}",
        )
    if len(declared) > MAX_ARGS:
        raise InvalidSetting("args", f"must be at most {MAX_ARGS}, got {len(declared):,}")
    return msgspec.defstruct(
        "Args", [_field(name, one) for name, one in declared.items()], kw_only=True, frozen=True
    )


def _field(name: Any, one: Any) -> tuple[str, Any] | tuple[str, Any, Any]:
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name) or name[0] == "_":
        raise InvalidSetting("args", f"have a name that is not a Python name: {shorten(repr(name), 60)}")
    if isinstance(one, type) or get_origin(one) is not None:
        return name, one
    return name, _type_of(one), msgspec.field(default_factory=lambda: deepcopy(one))


def _type_of(default: Any) -> Any:
    """Return the type that a default stands for; the elements of a list have the type of the first."""
    if default is None:
        return str | None
    return list[type(default[0])] if isinstance(default, list) and default else type(default)  # type: ignore[misc]


def _required_names(kind: Any) -> list[str]:
    about: Any = msgspec.inspect.type_info(kind)
    return [field.name for field in about.fields if field.required]


def _type_name(wanted: Any) -> str:
    return wanted.__name__ if isinstance(wanted, type) and get_origin(wanted) is None else str(wanted)
