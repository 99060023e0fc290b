"""Exit codes."""

from enum import IntEnum


class Exit(IntEnum):
    """The exit codes of all commands."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3  # it ran, but left dead letters, was stopped early, or its queue lost tasks
    BUSY = 4  # another process runs this scraper
    UNAVAILABLE = 5  # the queue's server cannot be reached
    LIMIT_REACHED = 6  # the run was cut: by max_pages, max_depth or traps
    INTERRUPTED = 130
