"""The lines of a summary about errors, rejects, and items that are missing or empty."""

import shlex
from collections.abc import Collection

from shoal.cli.console import counted
from shoal.fleet.status.findings import EmptyFields, RunFindings
from shoal.fleet.status.progress import Snapshot


def error_lines(found: "RunFindings", *, shown: Collection[str]) -> list[str]:
    """Return the first error of each class that is not shown already, in one line each."""
    return [f"First {name}: {message}" for name, message in found.errors.items() if name not in shown]


def item_lines(found: "RunFindings", snapshot: "Snapshot", first_page: str | None) -> list[str]:
    """Return the first reason of a reject, and warnings about items that are missing or empty.

    `first_page` is a page that a step was given: the first tasks of a run may be missing pages.
    """
    stats, fetched = snapshot.stats, snapshot.pages
    lines = [f"First reject: {found.reject}"] if found.reject else []
    if fetched and not (stats.items or stats.rejected or stats.remaining):
        look = shlex.join(["shoal", "shell", first_page or "URL"])
        pages = counted(fetched, "page")
        lines.append(f"Warning: {pages} gave no items. Try the selectors on a page: {look}")
    return [*lines, *map(_warn_of_empty_fields, found.empty)]


def _warn_of_empty_fields(empty: "EmptyFields") -> str:
    names, looked_at = ", ".join(empty.fields), counted(empty.items, "item")
    if empty.items == 1:
        return f"Warning: empty in the only item of step {empty.step}: {names}."
    return f"Warning: empty in all {looked_at} of step {empty.step} that were looked at: {names}."
