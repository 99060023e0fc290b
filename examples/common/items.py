"""Items as an example compares them: in an order that does not depend on who found them first."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any


def read_items(file: Path) -> list[str]:
    """Return the items of a file of JSON lines, sorted."""
    return sort_items(json.loads(line) for line in file.read_text().splitlines())


def sort_items(items: Iterable[dict[str, Any]]) -> list[str]:
    """Return items as JSON, sorted."""
    return sorted(json.dumps(item, sort_keys=True) for item in items)
