"""The names that installed packages register as entry points, read from their metadata without an import."""

import sys
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING

import msgspec

from shoal.core.text import printable

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class Plugin(msgspec.Struct, frozen=True):
    """One name that an installed package registers in a group."""

    group: str
    name: str
    package: str
    version: str
    entry: "EntryPoint"

    @property
    def origin(self) -> str:
        """The package and its version, for messages."""
        return f"{self.package} {self.version}".rstrip()


def installed(group: str) -> tuple[Plugin, ...]:
    """Return the plugins of a group, in order of name and package."""
    return _read(group, tuple(sys.path))


def installed_elsewhere(groups: Collection[str]) -> list[Plugin]:
    """Return the plugins of groups that begin with `shoal.` and are none of these: typing errors."""
    from importlib.metadata import distributions

    found = {
        (entry.group, entry.name): entry
        for package in distributions()
        for entry in package.entry_points
        if entry.group.startswith("shoal.") and entry.group not in groups
    }
    return [_plugin(entry) for entry in found.values()]


@lru_cache(maxsize=8)  # it takes a tenth of a second; a changed path is read again
def _read(group: str, path: tuple[str, ...]) -> tuple[Plugin, ...]:
    # Imported here: it takes as long as a third of a command's other imports, and few need it.
    from importlib.metadata import entry_points

    found = [_plugin(entry) for entry in entry_points(group=group)]
    return tuple(sorted(found, key=lambda one: (one.name, one.package)))


def _plugin(entry: "EntryPoint") -> Plugin:
    package, version = "an unnamed package", ""
    with suppress(Exception):  # the metadata of a package may be damaged; its name is only for messages
        if entry.dist:
            package, version = entry.dist.name or package, entry.dist.version or ""
    return Plugin(entry.group, printable(entry.name.lower()), printable(package), printable(version), entry)
