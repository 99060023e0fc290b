"""How pages are to be rendered, where a browser fetches them."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

BLOCKABLE = ("images", "fonts", "media", "trackers")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSettings:
    """What a scraper's browser waits for and leaves out, and when it is started anew.

    `wait` is "load", "dom", "idle", or a CSS selector. A page has a fresh context of its own, or shares its
    session's.
    """

    wait: str = "idle"
    block: frozenset[str] = field(default_factory=lambda: frozenset(BLOCKABLE))
    context: Literal["task", "session"] = "task"
    max_pages: int = 100
    tabs: int = 4
    memory: int = 2 << 30  # bytes of all its processes
    executable: Path | None = None

    @property
    def selector(self) -> str | None:
        """The CSS selector that is waited for."""
        return None if self.wait in ("load", "dom", "idle") else self.wait
