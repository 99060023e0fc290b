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
    SUSPICIOUS = 7  # the data of the run are not as expected
    BLOCKED = 8  # sites rejected most of its requests
    EMPTY = 9  # it has no items, though some were expected
    CANCELLED = 10
    TIMED_OUT = 11  # it was stopped at its time limit, with tasks left
    INTERRUPTED = 130
