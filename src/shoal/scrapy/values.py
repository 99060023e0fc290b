"""The values in a request's `meta` and `cb_kwargs`, as JSON and back.

What JSON has is stored as it is. Any other value is an object with one name, which begins with `~` and names
its type. Nothing is pickled, and reading imports nothing: a class must be in a module that is imported.
"""

import math
import sys
from base64 import b64decode, b64encode
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any
from uuid import UUID

from itemadapter import ItemAdapter
from scrapy import Request
from scrapy.http import Response
from scrapy.loader import ItemLoader

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten

MARK = "~"
MAX_INT = 1 << 63  # larger ones are text: not every store has them as numbers
PAGE_METHOD = "scrapy_playwright.page:PageMethod"
PASS_PLAIN = "Pass text, numbers, lists and dicts."


class UnstorableRequest(InvalidInput):
    """A request holds something that no other process can restore."""

    def __init__(self, where: str, what: str, advice: str) -> None:
        self.where, self.what, self.advice = where, what, advice
        super().__init__(f"{where} is {what}. {advice}")

    def within(self, request: Request) -> "UnstorableRequest":
        """Return the same error with the request that it is about."""
        return UnstorableRequest(f"{self.where} of {request}", self.what, self.advice)


class UnreadableRequest(InvalidInput):
    """A stored request cannot be restored here."""


def _to_base64(data: bytes) -> str:
    return b64encode(data).decode()


_UNIT = timedelta(microseconds=1)
_LONE = "utf-8", "surrogatepass"  # for text with lone surrogates
# Values that are stored as text: the name of each type, and how it is written and read.
_FORMS: dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]] = {
    bytes: ("bytes", _to_base64, b64decode),
    datetime: ("datetime", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: ("timedelta", lambda one: str(one // _UNIT), lambda text: int(text) * _UNIT),
    Decimal: ("decimal", str, Decimal),
    UUID: ("uuid", str, UUID),
    int: ("int", str, int),
    float: ("float", repr, float),
    str: ("text", lambda one: _to_base64(one.encode(*_LONE)), lambda x: b64decode(x).decode(*_LONE)),
}
_COLLECTIONS: dict[str, Callable[[list[Any]], Any]] = {"tuple": tuple, "set": set, "frozenset": frozenset}
# Dicts that behave differently from a plain one, and what a defaultdict may make.
_DICTS: dict[str, type[Any]] = {kind.__name__: kind for kind in (Counter, OrderedDict)}
_FACTORIES: dict[str, Any] = {kind.__name__: kind for kind in (list, dict, set, int, float, str)}
_FACTORIES["None"] = None
# A value of a subclass is stored as one of these.
_BASES: tuple[type[Any], ...] = (str, int, float, bytes, list, dict)
_LOADS = {name: load for name, _, load in _FORMS.values()}


class ValueCodec:
    """Stores values as JSON; requests among them are stored by the two functions it is given."""

    def __init__(
        self,
        encode_request: Callable[[Request], dict[str, Any]],
        decode_request: Callable[[dict[str, Any]], Request],
    ) -> None:
        self._encode_request, self._decode_request = encode_request, decode_request

    def encode(self, where: str, value: Any) -> Any:
        """Return a value as JSON; raises UnstorableRequest, which says `where` the value is."""
        kind = type(value)
        if kind is bool or value is None:
            return value
        if kind is str:
            return value if _is_plain(value) else _marked(str, value)
        if kind is int:
            return value if -MAX_INT < value < MAX_INT else _marked(int, value)
        if kind is float:
            return value if math.isfinite(value) else _marked(float, value)
        if kind is list:
            return [self.encode(f"{where}[{index}]", one) for index, one in enumerate(value)]
        if kind is dict:
            return self._encode_dict(where, value)
        if kind in _FORMS:
            return _marked(kind, value)
        if _COLLECTIONS.get(name := kind.__name__) is kind:
            return {MARK + name: [self.encode(where, one) for one in value]}
        return self._encode_object(where, value)

    def decode(self, value: Any) -> Any:
        """Return the value that this JSON stands for; raises UnreadableRequest."""
        if type(value) is list:
            return [self.decode(one) for one in value]
        if type(value) is not dict:
            return value
        if len(value) == 1:
            ((name, inner),) = value.items()
            if name.startswith(MARK):
                return self._decode_marked(name[len(MARK) :], inner)
        return {key: self.decode(one) for key, one in value.items()}

    def _encode_dict(self, where: str, value: dict[Any, Any]) -> Any:
        if all(type(key) is str and not key.startswith(MARK) and _is_plain(key) for key in value):
            return {key: self.encode(f"{where}[{key!r}]", one) for key, one in value.items()}
        pairs = value.items()
        return {MARK + "dict": [[self.encode(where, key), self.encode(where, one)] for key, one in pairs]}

    def _encode_object(self, where: str, value: Any) -> Any:
        if isinstance(value, Request):
            return {MARK + "request": self._encode_request(value)}
        if isinstance(value, Response):
            raise UnstorableRequest(where, describe(value), "Pass what you read from it.")
        if isinstance(value, ItemLoader):
            advice = "Pass loader.load_item(), and begin the next loader with it."
            raise UnstorableRequest(where, describe(value), advice)
        kind = type(value)
        if kind is defaultdict or kind in _DICTS.values():
            return self._encode_special_dict(where, value)
        if isinstance(value, tuple) and hasattr(kind, "_fields"):
            return {MARK + "named": [path_of(kind, where), [self.encode(where, one) for one in value]]}
        if f"{kind.__module__}:{kind.__qualname__}" == PAGE_METHOD:
            parts = [value.method, list(value.args), value.kwargs]
            return {MARK + "page method": [self.encode(f"{where}.method", one) for one in parts]}
        if not isinstance(value, dict) and ItemAdapter.is_item(value):
            fields = {name: self.encode(f"{where}.{name}", one) for name, one in ItemAdapter(value).items()}
            return {MARK + "item": [path_of(kind, where), fields]}
        for base in _BASES:
            if isinstance(value, base):
                return self.encode(where, base.__str__(value) if base is str else base(value))
        raise UnstorableRequest(where, describe(value), PASS_PLAIN)

    def _encode_special_dict(self, where: str, value: Any) -> Any:
        name = type(value).__name__
        if isinstance(value, defaultdict):
            name = getattr(value.default_factory, "__name__", "None")
            if _FACTORIES.get(name, name) is not value.default_factory:
                raise UnstorableRequest(where, "a defaultdict of a function", "Pass dict(…) of it.")
        pairs = [[self.encode(where, key), self.encode(where, one)] for key, one in value.items()]
        return {f"{MARK}dict of": [name, pairs]}

    def _decode_marked(self, name: str, inner: Any) -> Any:
        try:
            if name in _LOADS:
                return _LOADS[name](inner)
            if name in _COLLECTIONS:
                return _COLLECTIONS[name]([self.decode(one) for one in inner])
            if name == "dict":
                return {self.decode(key): self.decode(one) for key, one in inner}
            if name == "dict of":
                found = _DICTS[inner[0]]() if inner[0] in _DICTS else defaultdict(_FACTORIES[inner[0]])
                found.update({self.decode(key): self.decode(one) for key, one in inner[1]})
                return found
            if name == "request":
                return self._decode_request(inner)
            if name == "page method":
                method, args, kwargs = self.decode(inner)
                return load_class(PAGE_METHOD)(method, *args, **kwargs)
            if name in ("item", "named"):
                return _make_item(inner[0], self.decode(inner[1]))
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError) as error:
            raise UnreadableRequest(f"A stored {name} cannot be restored: {error}") from error
        raise UnreadableRequest(f"A stored value has the unknown type {shorten(name)!r}")


def describe(value: Any) -> str:
    """Return what a value is, in a few words."""
    return f"a value of type {type(value).__name__}"


def path_of(kind: type, where: str = "the class") -> str:
    """Return the module and name of a class; raises UnstorableRequest for one that has no such name."""
    if "<" in kind.__qualname__ or kind.__module__ == "__main__":
        advice = "Define the class at the top level of a module."
        raise UnstorableRequest(where, kind.__qualname__, advice)
    return f"{kind.__module__}:{kind.__qualname__}"


@lru_cache(maxsize=1_000)
def load_class(path: str) -> type:
    """Return the class of a module that is imported already; raises UnreadableRequest."""
    module, _, qualname = path.partition(":")
    found = find_in_module(module, qualname)
    if not isinstance(found, type) or (found.__module__, found.__qualname__) != (module, qualname):
        advice = "Was it renamed? Keep the old name too"
        raise UnreadableRequest(f"This project has imported no class {shorten(path)}. {advice}")
    return found


def find_in_module(module: str, qualname: str) -> Any:
    """Return what a module that is imported has under this name; None if there is nothing."""
    found: Any = sys.modules.get(module)
    for name in qualname.split("."):
        found = getattr(found, name, None)
    return found


def _make_item(path: str, values: Any) -> Any:
    """Return an item, or a named tuple."""
    kind: Any = load_class(path)
    if issubclass(kind, tuple) and hasattr(kind, "_make"):
        return kind._make(values)
    if ItemAdapter.is_item_class(kind) and not issubclass(kind, dict):
        return kind(**values)
    raise UnreadableRequest(f"{path} is not a class of items or named tuples")


def _marked(kind: type, value: Any) -> dict[str, Any]:
    name, dump, _ = _FORMS[kind]
    return {MARK + name: dump(value)}


def _is_plain(text: str) -> bool:
    """Tell whether every store keeps a text as it is: no null character, and no lone surrogate."""
    if "\0" in text:
        return False
    return text.isascii() or not any("\ud800" <= one <= "\udfff" for one in text)
