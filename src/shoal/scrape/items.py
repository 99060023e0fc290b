"""Turn a yielded value into an item: plain JSON values, validated against the step's item type."""

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import PurePath
from typing import Any, is_typeddict

import msgspec

from shoal.core.errors import InvalidItem, InvalidSetting
from shoal.core.failures import MAX_ERROR
from shoal.core.model import Reject
from shoal.core.text import shorten
from shoal.scrape.files import Download, DownloadFinder, HasDownloads, Place
from shoal.scrape.node import Node

Check = Callable[[Any], Any]

_AT = re.compile(r"(?P<message>.*) - at `\$\.?(?P<path>.*)`", re.DOTALL)
_NO_NUMBER = re.compile(r"Expected `.*`, got `str` - at `\$\.(?P<field>.*)`")
_MISSING = re.compile(r"Object missing required field `(.*)`")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")
_NUL = re.compile(rb"(?<!\\)(?:\\\\)*\\u0000")
_encode = msgspec.json.Encoder().encode


def is_item(value: object) -> bool:
    """Tell whether a step may yield this value as an item."""
    if isinstance(value, (dict, Mapping)) or _is_record(type(value)):
        return True
    return isinstance(value, msgspec.Struct) and not isinstance(value, Node)


def validator_for(item: Any) -> Check | None:
    """Return the function that validates plain data as a type; raises InvalidSetting for an unusable type."""
    if item is None:
        return None
    if hasattr(item, "model_validate"):
        return item.model_validate  # type: ignore[no-any-return]
    if _is_checkable(item):
        return partial(_convert, item)
    known = "a dataclass, a TypedDict, a msgspec Struct or a pydantic model"
    raise InvalidSetting("item", f"must be {known}, got {shorten(repr(item))}")


def validate_item(value: Any, check: Check | None) -> Any:
    """Return an item as plain JSON values, or a Reject with the reason; raises InvalidItem."""
    data = plain(value)
    if check is not None:
        try:
            data = plain(check(data))
        except (TypeError, NameError) as error:  # not the data's fault: the type cannot be used
            raise InvalidItem(value, f"the step's item type cannot be checked: {error}") from error
        except ValueError as error:
            return make_reject(data, _reason(error, data))
    wrong = _unstorable(data)
    return make_reject(data, wrong) if wrong else data


def take_downloads(value: Any) -> tuple[Any, list[tuple[Place, Download]]] | Reject:
    """Return an item as plain JSON values with its downloads taken out; a Reject if it cannot be stored."""
    finder = DownloadFinder()
    data = plain(value, partial(_to_json_type, finder=finder))
    found = finder.take(data)
    wrong = _unstorable(data)
    return make_reject(data, wrong) if wrong else (data, found)


def make_reject(value: Any, reason: str) -> Reject:
    """Return a Reject that every backend can store."""
    try:
        data = _clean(plain(value, _to_reject_type))
    except RecursionError:
        data, reason = None, f"{reason} (nested too deep to keep)"
    return Reject(data=data, reason=_clean(str(reason))[:MAX_ERROR])


def plain(value: Any, convert: Callable[[Any], Any] | None = None) -> Any:
    """Return a value as plain JSON types; raises InvalidItem, or HasDownloads."""
    try:
        return msgspec.to_builtins(value, str_keys=True, enc_hook=convert or _to_json_type)
    except (TypeError, ValueError, NotImplementedError, RecursionError) as error:
        raise InvalidItem(value, f"it is not JSON: {error}") from error


def _convert(item: Any, data: Any) -> Any:
    """Convert data to a type.

    Numbers are read from text, since text is what a page holds: "12.50" is a price, and so is " 12.50".
    """
    while True:
        try:
            return msgspec.convert(data, item, strict=False)
        except msgspec.ValidationError as error:
            trimmed = _trim_number(data, str(error))
            if trimmed is None:
                raise
            data = trimmed


def _trim_number(data: Any, message: str) -> Any | None:
    """Return the data with the text that is no number without its blanks; None if it has none around it."""
    found = _NO_NUMBER.fullmatch(message)
    if found is None or not isinstance(data, dict):
        return None
    text = data.get(found["field"])
    if not isinstance(text, str) or text == text.strip():
        return None
    return {**data, found["field"]: text.strip()}


def _is_checkable(item: Any) -> bool:
    if not isinstance(item, type):
        return False
    return is_typeddict(item) or issubclass(item, msgspec.Struct) or _is_record(item)


def _is_record(kind: type) -> bool:
    return dataclasses.is_dataclass(kind) or hasattr(kind, "model_dump") or hasattr(kind, "__attrs_attrs__")


def _to_json_type(value: Any, finder: DownloadFinder | None = None) -> Any:
    if isinstance(value, Download):
        if finder is None:
            raise HasDownloads(value, "it is a download, which only an item that a step yields may hold")
        return finder.mark(value)
    if hasattr(type(value), "model_dump"):
        return value.model_dump(mode="json")
    if isinstance(value, Mapping):
        return dict(value)
    if isinstance(value, (str, PurePath)):
        return str(value)
    if callable(value) and (name := getattr(value, "__name__", "")):
        raise NotImplementedError(f"it holds the function {name!r}; call it: {name}(…)")
    raise NotImplementedError(f"it holds a value of type {type(value).__name__}; make it text or a number")


def _to_reject_type(value: Any) -> Any:
    return value.url if isinstance(value, Download) else _to_json_type(value)


def _unstorable(data: Any) -> str | None:
    try:
        text = _encode(data)
    except (UnicodeError, ValueError, RecursionError, OverflowError) as error:
        return f"it is not JSON: {error}"
    if b"\\u0000" in text and _NUL.search(text):
        return "it holds a NUL character"
    # The encoder writes them as null, which would be a value that nobody has yielded.
    if b"null" in text and (found := _not_finite(data)):
        place, number = found
        return f"{place} is {number}, which JSON cannot hold. Yield None or text instead"
    return None


def _not_finite(data: Any, place: str = "it") -> tuple[str, float] | None:
    """Return the first number that is infinite or not a number, and where it is."""
    if isinstance(data, float):
        return None if math.isfinite(data) else (place, data)
    if isinstance(data, dict):
        children = ((str(name), value) for name, value in data.items())
    elif isinstance(data, list):
        children = ((str(number), value) for number, value in enumerate(data))
    else:
        return None
    prefix = "" if place == "it" else f"{place}."
    return next((found for name, value in children if (found := _not_finite(value, f"{prefix}{name}"))), None)


def _clean(data: Any) -> Any:
    match data:
        case str():
            return _UNSTORABLE.sub("\ufffd", data)
        case dict():
            return {_clean(key): _clean(value) for key, value in data.items()}
        case list() | tuple():
            return [_clean(value) for value in data]
        case _:
            return data


def _reason(error: ValueError, data: Any) -> str:
    if hasattr(error, "errors"):
        return "; ".join(f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:5])
    found = _AT.fullmatch(str(error))
    message, path = (found["message"], found["path"]) if found else (str(error), "")
    if missing := _MISSING.fullmatch(message):
        return f"{path and path + '.'}{missing[1]}: it is missing"
    got = f" ({shorten(repr(data[path]), 60)})" if isinstance(data, dict) and path in data else ""
    return f"{path}: {message}{got}" if path else message
