"""Settings for pages that a browser fetches."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

BLOCKABLE = ("images", "fonts", "media", "trackers")


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowserSettings:
    """What a scraper's browser waits for and blocks, and when it is restarted.

    `wait` is "load", "dom", "idle", or a CSS selector. `context` "task" gives each page a fresh browser
    context; "session" shares the context of its session.
    """

    wait: str = "idle"
    block: frozenset[str] = field(default_factory=lambda: frozenset(BLOCKABLE))
    context: Literal["task", "session"] = "task"
    max_pages: int = 100
    tabs: int = 4
    memory: int = 2 << 30  # bytes, of all processes of the browser
    executable: Path | None = None

    @property
    def selector(self) -> str | None:
        """The CSS selector to wait for, None if `wait` names an event."""
        return None if self.wait in ("load", "dom", "idle") else self.wait
