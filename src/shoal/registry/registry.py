"""A registry: names to what they stand for, built in or from an installed package, loaded when first used."""

from collections.abc import Callable, Mapping
from typing import Generic, TypeVar

import msgspec

from shoal.core.errors import PluginFailed
from shoal.core.text import shorten
from shoal.registry.installed import Plugin, installed

T = TypeVar("T")


class PluginState(msgspec.Struct, frozen=True):
    """A plugin, and why it cannot be used: empty if it can."""

    plugin: Plugin
    problem: str = ""


class Registry(Generic[T]):
    """The things of one kind, by name.

    `builtin` has the function that loads each of Shoal's own; packages add names by entry points of `group`.
    A package cannot take a name of Shoal's, and no name can have two packages. `read` checks what was
    loaded, and raises TypeError with the reason if it is not of this kind.
    """

    def __init__(
        self,
        group: str,
        kind: str,
        builtin: Mapping[str, Callable[[], T]],
        read: Callable[[object], T],
    ) -> None:
        self.group, self.kind = group, kind
        self._builtin, self._read = builtin, read
        self._loaded: dict[Plugin, T] = {}

    @property
    def builtin(self) -> tuple[str, ...]:
        """Shoal's own names; reading them needs no package metadata."""
        return tuple(self._builtin)

    def names(self) -> list[str]:
        """Return Shoal's own names, then those of plugins."""
        return [*self._builtin, *sorted(set(self.plugin_names()) - set(self._builtin))]

    def plugin_names(self) -> dict[str, Plugin]:
        """Return the names that packages add, also those that cannot be loaded; nothing is imported."""
        return {one.name: one for one in installed(self.group) if one.name not in self._builtin}

    def find(self, name: str) -> T | None:
        """Return what a name stands for, None if nothing is called so; raises PluginFailed."""
        if name in self._builtin:
            return self._builtin[name]()
        plugins = [one for one in installed(self.group) if one.name == name]
        if not plugins:
            return None
        if problem := self._conflict(plugins[0]):
            raise self._failed(plugins[0], problem)
        return self._load(plugins[0])

    def failure(self, name: str, reason: str) -> PluginFailed:
        """Return the error for a plugin that fails when it is used."""
        return self._failed(self.plugin_names()[name], reason)

    def plugins(self) -> list[PluginState]:
        """Return all plugins of this kind with their problems; each is imported."""
        return [PluginState(one, self._problem(one)) for one in installed(self.group)]

    def _problem(self, plugin: Plugin) -> str:
        if conflict := self._conflict(plugin):
            return conflict
        try:
            self._load(plugin)
        except PluginFailed as error:
            return error.reason
        return ""

    def _conflict(self, plugin: Plugin) -> str:
        if plugin.name in self._builtin:
            return f"the {self.kind} {plugin.name!r} is built in and cannot be replaced; rename the plugin's"
        others = [one for one in installed(self.group) if one.name == plugin.name and one is not plugin]
        if others:
            both = " and ".join(sorted({one.origin for one in (plugin, *others)}))
            return f"it is registered more than once, by {both}; uninstall all but one"
        return ""

    def _load(self, plugin: Plugin) -> T:
        if plugin not in self._loaded:
            try:
                self._loaded[plugin] = self._read(plugin.entry.load())
            except (Exception, SystemExit) as error:  # what a package does at import is its own matter
                reason = f"{type(error).__name__}: {shorten(str(error), 300)}"
                raise self._failed(plugin, reason) from error
        return self._loaded[plugin]

    def _failed(self, plugin: Plugin, reason: str) -> PluginFailed:
        return PluginFailed(self.kind, plugin.name, plugin.origin, reason)
