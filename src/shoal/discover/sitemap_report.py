"""What a walk through sitemaps did, and what was wrong on the way."""

from collections import Counter
from dataclasses import dataclass, field

MOST_PROBLEMS = 1_000  # that are listed; the others are counted

OLDER = "older"
OTHER_HOST = "another host"
INVALID = "invalid URL"
NO_ADDRESS = "no address"
TOO_DEEP = "too deep"
TOO_MANY = "too many files"
TWICE = "named twice"
LOOP = "loop"
OLDER_FILE = "older file"
UNENCRYPTED = "secret headers would go unencrypted"


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that was not read, or not to its end, and why."""

    url: str
    reason: str


@dataclass(slots=True)
class SitemapReport:
    """Counts of files and URLs, what was skipped for which reason, and the files that had a problem."""

    files: int = 0
    urls: int = 0
    skipped: Counter[str] = field(default_factory=Counter)
    problems: list[Problem] = field(default_factory=list)
    unlisted: int = 0  # problems beyond those that are listed

    def note(self, url: str, reason: str) -> None:
        """Take note of a problem; one that comes again and again is listed once."""
        if self.problems and self.problems[-1] == Problem(url, reason):
            return
        if len(self.problems) < MOST_PROBLEMS:
            self.problems.append(Problem(url, reason))
        else:
            self.unlisted += 1
