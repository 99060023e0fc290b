"""Named queries: a file for each theme, in which `-- name: NAME` begins a query."""

import re
from pathlib import Path

_NAME = re.compile(r"^-- name: (\w+)\n", re.MULTILINE)


def read_queries(folder: Path) -> dict[str, str]:
    """Return the queries in the `.sql` files of a folder by name; no name may occur twice."""
    queries: dict[str, str] = {}
    for file in sorted(folder.glob("*.sql")):
        _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
        for name, text in zip(parts[::2], parts[1::2], strict=True):
            if name in queries:
                raise ValueError(f"{file}: the query {name} is defined twice")
            queries[name] = text.strip()
    return queries
