"""Scrapy requests as JSON, and back: what a task of the queue stores of a request."""

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scrapy import Request, Spider
from scrapy.http.request import NO_CALLBACK
from scrapy.utils.serialize import ScrapyJSONEncoder

from shoal.core.errors import InvalidInput
from shoal.core.text import shorten
from shoal.scrapy.values import (
    UnreadableRequest,
    UnstorableRequest,
    ValueCodec,
    describe,
    find_in_module,
    load_class,
    path_of,
)

# The attributes of a plain GET, which are not stored. Those of subclasses have no defaults.
_PLAIN = Request("https://example.com/")
_DEFAULTS = {name: getattr(_PLAIN, name) for name in Request.attributes if name != "url"}
_FUNCTIONS = ("callback", "errback")
_CLASS, _LATIN = "class", "latin-1"
NO_CALLBACK_NAME = "~none"
MAKE_METHOD = (
    "No other process can find it: make it a method of the spider, and pass what it needs as cb_kwargs."
)


class RequestCodec:
    """Stores the requests of one spider as JSON."""

    def __init__(self, spider: Spider) -> None:
        self._spider = spider
        classes = type(spider).__mro__[:-1]
        # Functions of Scrapy itself are no callbacks, and calling one is what a forged task could try.
        self._packages = {_package_of(one.__module__) for one in classes} - {"scrapy"}
        self._method_names: dict[Callable[..., Any], str | None] = {}
        self.values = ValueCodec(self.encode, self.decode)

    def encode(self, request: Request) -> dict[str, Any]:
        """Return a request as JSON; raises UnstorableRequest."""
        kind = type(request)
        found: dict[str, Any] = {}
        defaults = _DEFAULTS
        try:
            if kind is not Request:
                found[_CLASS], defaults = path_of(kind), {}  # a subclass may have others
            for name in kind.attributes:
                value = getattr(request, name, None)
                if value != defaults.get(name):
                    self._encode_attribute(found, name, value)
        except UnstorableRequest as error:
            raise error.within(request) from None
        except RecursionError:
            raise UnstorableRequest(f"a value of {request}", "part of itself", "Pass a copy.") from None
        return found

    def decode(self, stored: dict[str, Any]) -> Request:
        """Return the request that this JSON stands for; raises UnreadableRequest."""
        kind = load_class(stored[_CLASS]) if _CLASS in stored else Request
        if not issubclass(kind, Request):
            raise UnreadableRequest(f"{stored[_CLASS]} is not a class of requests")
        fields: dict[str, Any] = {}
        for name, value in stored.items():
            if name in _FUNCTIONS:
                fields[name] = self._find_function(value)
            elif name == "headers":
                encoded = ((key, [one.encode(_LATIN) for one in values]) for key, values in value)
                fields[name] = [(key.encode(_LATIN), values) for key, values in encoded]
            elif name != _CLASS:
                fields[name] = self.values.decode(value)
        try:
            return kind(**fields)
        except (ValueError, TypeError) as error:
            raise UnreadableRequest(f"A stored request cannot be restored: {error}") from error

    def _encode_attribute(self, found: dict[str, Any], name: str, value: Any) -> None:
        if name in _FUNCTIONS:
            found[name] = self._name_of(name, value)
        elif name != "headers":
            found[name] = self.values.encode(name, value)
        elif value:
            decoded = ((key, [one.decode(_LATIN) for one in values]) for key, values in value.items())
            found[name] = [[key.decode(_LATIN), values] for key, values in decoded]

    def _name_of(self, where: str, function: Any) -> str:
        """Return the name by which another process finds a callback; raises UnstorableRequest."""
        if function is NO_CALLBACK:
            return NO_CALLBACK_NAME
        plain = getattr(function, "__func__", None)
        if plain is not None and getattr(function, "__self__", None) is self._spider:
            if name := self._method_name(plain):
                return name
        elif self._is_of_project(function):
            return f"{function.__module__}:{function.__qualname__}"
        raise UnstorableRequest(f"the {where}", _describe_function(function), MAKE_METHOD)

    def _method_name(self, function: Callable[..., Any]) -> str | None:
        if function not in self._method_names:
            kind = type(self._spider)
            # Its own name, that of a private method, or another one that it got in the class.
            names = (str(function.__name__), *dir(kind))
            found = (name for name in names if inspect.getattr_static(kind, name, None) is function)
            self._method_names[function] = next(found, None)
        return self._method_names[function]

    def _is_of_project(self, function: Any) -> bool:
        return (
            inspect.isfunction(function)
            and _package_of(function.__module__) in self._packages
            and find_in_module(function.__module__, function.__qualname__) is function
        )

    def _find_function(self, name: Any) -> Any:
        """Return the callback of a stored name; raises UnreadableRequest."""
        if name == NO_CALLBACK_NAME:
            return NO_CALLBACK
        if not isinstance(name, str):
            raise UnreadableRequest(f"A stored callback is not a name: {shorten(repr(name))}")
        module, colon, qualname = name.partition(":")
        if not colon:
            found = getattr(self._spider, name, None)
            if inspect.ismethod(found) and found.__self__ is self._spider:
                return found
        elif _package_of(module) in self._packages:
            found = find_in_module(module, qualname)
            if inspect.isfunction(found) and found.__module__ == module:
                return found
        raise UnreadableRequest(
            f"A task names the callback {shorten(name)!r}, and {type(self._spider).__name__} has none. "
            "Was it renamed? Keep the old name as an alias."
        )


class _FeedEncoder(ScrapyJSONEncoder):
    """The encoder of Scrapy's JSON feeds, which does not know bytes and frozen sets."""

    def default(self, value: Any) -> Any:
        if isinstance(value, bytes):
            return value.decode(errors="replace")
        return list(value) if isinstance(value, frozenset) else super().default(value)


def item_as_json(value: Any) -> Any:
    """Return an item as Scrapy's JSON feeds write it; raises InvalidInput for a value unknown to them."""
    try:
        return json.loads(json.dumps(value, cls=_FeedEncoder))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"An item cannot be stored as JSON: {error}") from error


def _package_of(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _describe_function(function: Any) -> str:
    plain = inspect.unwrap(function) if callable(function) else function
    code = getattr(plain, "__code__", None)
    where = f" ({Path(code.co_filename).name}:{code.co_firstlineno})" if code else ""
    name = getattr(function, "__qualname__", "")
    if name.endswith("<lambda>"):
        return f"a lambda{where}"
    return f"the function {name}{where}" if name else describe(function)
