"""The report of a sitemap walk: counts, skipped URLs and problems."""

from collections import Counter
from collections.abc import Callable

import msgspec

MAX_PROBLEMS = 1_000  # listed; further ones are only counted

OLDER = "older"
OTHER_HOST = "another host"
INVALID = "without a valid URL"
NO_ADDRESS = "no address"
TOO_DEEP = "too deep"
TOO_MANY = "too many files"
TWICE = "named twice"
LOOP = "loop"
OLDER_FILE = "older file"
UNENCRYPTED = "secret headers would go unencrypted"


class Problem(msgspec.Struct, frozen=True):
    """A file that could not be read completely, and the reason."""

    url: str
    reason: str


class SitemapReport(msgspec.Struct):
    """Counts of files and URLs, skipped URLs by reason, and files with problems."""

    source: str = "sitemap"  # or another kind of source whose files list pages
    files: int = 0
    urls: int = 0
    skipped: Counter[str] = msgspec.field(default_factory=Counter)
    problems: list[Problem] = msgspec.field(default_factory=list)
    unlisted: int = 0  # problems beyond those that are listed
    pending: int = 0  # files that are known and not read yet
    on_file: Callable[["SitemapReport"], None] | None = None  # called before each file is fetched

    def begin_file(self, pending: int) -> None:
        """Call `on_file` before a file is read, with how many are after it."""
        self.pending = pending
        if self.on_file:
            self.on_file(self)

    def note(self, url: str, reason: str) -> None:
        """Record a problem; an immediate repetition is listed once."""
        if self.problems and self.problems[-1] == Problem(url, reason):
            return
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(url, reason))
        else:
            self.unlisted += 1
