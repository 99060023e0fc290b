"""The version of a store's schema: the major version of Shoal, then three digits; 1001 is the first one.

Within a major version a schema only gains tables, columns and functions, so that workers of an older Shoal
go on while the newer ones come: `tests/integration/upgrades` runs both on one run.
"""

from typing import NamedTuple

from shoal.core.errors import SchemaTooNew

MAJOR = 1000


class SchemaVersions(NamedTuple):
    """What a store has, and what this Shoal would migrate it to."""

    found: int  # 0 if it has none yet
    newest: int


def must_migrate(found: int, newest: int) -> bool:
    """Return whether a store lacks migrations; raises SchemaTooNew for one of a later major version."""
    if found // MAJOR > newest // MAJOR:
        raise SchemaTooNew(found, newest)
    return found < newest
