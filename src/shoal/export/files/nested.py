"""Types of Parquet columns that hold lists and mappings, inferred from all values of a column."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from shoal.export.table import Kind, as_text, common_kind, convert, kind_of

MAX_DEPTH = 8  # of lists and mappings in each other
MAX_FIELDS = 200  # of one column, counted through all its levels
MIXED = "it holds {} beside {}"
TOO_DEEP = f"it is nested deeper than {MAX_DEPTH} levels"
TOO_WIDE = f"its mappings have more than {MAX_FIELDS} fields"


@dataclass(frozen=True, slots=True)
class NestedType:
    """The type of a column, or of a part of it: a kind of value, a list of a type, or a mapping of them."""

    kind: Kind = Kind.NULL
    element: "NestedType | None" = None  # of a list
    fields: "Mapping[str, NestedType] | None" = None  # of a mapping
    why_text: str = field(default="", compare=False)  # why a list or mapping is written as JSON text

    @property
    def is_nested(self) -> bool:
        """Whether it is a list or a mapping."""
        return self.element is not None or self.fields is not None

    @property
    def noun(self) -> str:
        """The type in a message."""
        return "lists" if self.element else "mappings" if self.fields is not None else self.kind.value

    def walk(self, name: str) -> Iterator[tuple[str, "NestedType"]]:
        """Yield the type and all types within it, each with its path."""
        yield name, self
        if self.element:
            yield from self.element.walk(f"{name}[]")
        for key, one in (self.fields or {}).items():
            yield from one.walk(f"{name}.{key}")


NO_VALUE = NestedType()


def type_of(value: Any, depth: int = 1) -> NestedType:
    """Return the narrowest type that holds a value."""
    if not isinstance(value, (list, dict)):
        return NestedType(kind_of(value))
    if depth > MAX_DEPTH:
        return _text(TOO_DEEP)
    if isinstance(value, list):
        element = NO_VALUE
        for one in value:
            element = common_type(element, type_of(one, depth + 1))
        return NestedType(Kind.JSON, element=element)
    if len(value) > MAX_FIELDS:
        return _text(TOO_WIDE)
    return _bounded({str(key): type_of(one, depth + 1) for key, one in value.items()})


def common_type(one: NestedType, other: NestedType) -> NestedType:
    """Return the narrowest type that holds the values of both; text if a list or mapping meets another."""
    if other.kind is Kind.NULL or (one.kind is Kind.TEXT and not other.is_nested and not other.why_text):
        return one
    if one.kind is Kind.NULL:
        return other
    if one.why_text or other.why_text:
        return _text(one.why_text or other.why_text)
    if one.element and other.element:
        return NestedType(Kind.JSON, element=common_type(one.element, other.element))
    if one.fields is not None and other.fields is not None:
        both = {
            key: common_type(one.fields.get(key, NO_VALUE), other.fields.get(key, NO_VALUE))
            for key in {**one.fields, **other.fields}
        }
        return _bounded(both)
    if one.is_nested or other.is_nested:
        return _text(MIXED.format(one.noun, other.noun))
    return NestedType(common_kind(one.kind, other.kind))


def convert_nested(value: Any, to: NestedType) -> Any:
    """Convert a value to the type of its column; what is not text in a text column becomes JSON."""
    if value is None:
        return None
    if to.element and isinstance(value, list):
        return [convert_nested(one, to.element) for one in value]
    if to.fields and isinstance(value, dict):
        return {key: convert_nested(value.get(key), one) for key, one in to.fields.items()}
    return as_text(value) if to.is_nested else convert(value, to.kind)


def _bounded(fields: Mapping[str, NestedType]) -> NestedType:
    found = NestedType(Kind.JSON, fields=fields)
    return _text(TOO_WIDE) if sum(1 for _ in found.walk("")) > MAX_FIELDS + 1 else found


def _text(why: str) -> NestedType:
    return NestedType(Kind.TEXT, why_text=why)
