"""The exit codes, by name."""

from enum import IntEnum


class Exit(IntEnum):
    """What a command's exit code says."""

    OK = 0
    FAILED = 1
    USAGE = 2
    PARTIAL = 3  # it ran, but left dead letters, or was stopped before the end
    BUSY = 4  # another process runs this scraper
    UNAVAILABLE = 5  # the queue's server cannot be reached
    LIMIT_REACHED = 6  # the run ended at a limit of its own, max_pages, with tasks left
    INTERRUPTED = 130
