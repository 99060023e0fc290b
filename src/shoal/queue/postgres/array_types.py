"""What the driver needs to know of PostgreSQL's own array types, which it would ask every connection for."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

# The ids of array types and of their elements, the same on every server: PostgreSQL assigns those below
# 16,384 in its source code, and clients rely on them.
_ELEMENTS: Final = {
    1000: (16, "bool"),
    1001: (17, "bytea"),
    1005: (21, "int2"),
    1007: (23, "int4"),
    1016: (20, "int8"),
    1022: (701, "float8"),
    1185: (1184, "timestamptz"),
    1187: (1186, "interval"),
    2951: (2950, "uuid"),
}


@dataclass(frozen=True, slots=True)
class NoStatement:
    """Stands for the statement of a query that was not sent; named, so that no other is replaced."""

    name: str = "none"


def described(oids: Collection[int]) -> list[Mapping[str, Any]] | None:
    """Return what the driver reads of these types' rows in the catalogue; None if one is not known here."""
    if not set(oids) <= _ELEMENTS.keys():
        return None
    return [_row(oid, *_ELEMENTS[oid]) for oid in oids]


def _row(oid: int, element: int, name: str) -> Mapping[str, Any]:
    return {
        "oid": oid,
        "ns": "pg_catalog",
        "name": f"_{name}",
        "kind": b"b",
        "elemtype": element,
        "elemdelim": b",",
        "basetype": None,
        "range_subtype": None,
        "attrtypoids": None,
    }
