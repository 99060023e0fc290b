"""Migrate a database file to the current schema with numbered scripts."""

from functools import cache
from pathlib import Path

from shoal.core.errors import SchemaTooNew
from shoal.queue.sqlite.connection import APPLICATION_ID
from shoal.queue.sqlite.store import Store


def migrate(store: Store) -> int:
    """Run the scripts that the file lacks, in the caller's transaction; return the schema version."""
    found = store.connection.pragma("user_version")
    known = len(scripts())
    if found > known:
        raise SchemaTooNew(found, known)
    for script in scripts()[found:]:
        store.connection.execute(script)
    if found < known:
        store.connection.pragma("user_version", known)
        store.connection.pragma("application_id", APPLICATION_ID)
    return known


@cache
def scripts() -> list[str]:
    """Return the migrations in order; the first creates version 1."""
    found = sorted(Path(__file__).with_name("migrations").glob("*.sql"))
    return [script.read_text(encoding="utf-8") for script in found]
