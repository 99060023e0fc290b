"""Errors of input that cannot be used; nothing was changed."""

from difflib import get_close_matches
from typing import Any

from shoal.core.errors.base import ShoalError
from shoal.core.text import shorten


class InvalidInput(ShoalError):
    """The input cannot be used."""


class InvalidUrl(InvalidInput):
    """This URL cannot be fetched."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = url, reason
        super().__init__(f"Cannot fetch URL {shorten(url)!r}: {reason}")


class InvalidTask(InvalidInput):
    """This task cannot be queued."""

    def __init__(self, task: Any, reason: str) -> None:
        self.task, self.reason = task, reason
        super().__init__(f"Invalid task: {reason}")


class InvalidItem(InvalidInput):
    """This item cannot be stored."""

    def __init__(self, item: Any, reason: str) -> None:
        self.item, self.reason = item, reason
        super().__init__(f"Invalid item: {reason}")


class InvalidNote(InvalidInput):
    """This note cannot be stored."""

    def __init__(self, topic: str, reason: str) -> None:
        self.topic, self.reason = topic, reason
        super().__init__(f"Invalid note in {shorten(topic)!r}: {reason}")


class InvalidSetting(InvalidInput):
    """This setting cannot be used."""

    def __init__(self, key: str, reason: str) -> None:
        self.key, self.reason = key, reason
        super().__init__(f"{key} {reason}")


class UnknownScraper(InvalidInput):
    """The project has no such scraper."""

    def __init__(self, name: str, known: list[str]) -> None:
        self.name = name
        close = get_close_matches(name, known, n=1)
        hint = f"Did you mean {close[0]!r}?" if close else f"It has: {', '.join(known) or 'none'}."
        super().__init__(f"The project has no scraper {shorten(name)!r}. {hint}")


class PluginFailed(InvalidInput):
    """A plugin cannot be used."""

    def __init__(self, kind: str, name: str, package: str, reason: str) -> None:
        self.kind, self.name, self.package, self.reason = kind, name, package, reason
        super().__init__(
            f"The {kind} {name!r} of the package {package} cannot be used: {reason}. "
            "List all plugins with: shoal plugins"
        )
