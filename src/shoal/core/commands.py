"""Commands that messages show: on the queue that this process uses, and on its run."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Of the whole process and not of a context: some errors are raised in the thread of a queue.
_in_use: list[tuple[str, str]] = []


@contextmanager
def commands_use(queue_option: str, run_id: str = "") -> Iterator[None]:
    """Make the commands of messages select this queue, and this run, inside the block."""
    used = (queue_option, run_id)
    _in_use.append(used)
    try:
        yield
    finally:
        _in_use.remove(used)


def shoal_command(words: str) -> str:
    """Return a `shoal` command on the queue in use; without the option if this process uses several."""
    options = {option for option, _ in _in_use}
    option = options.pop() if len(options) == 1 else ""
    return f"shoal {words} {option}".rstrip()


def record_command(path: Path) -> str:
    """Return the command that makes a recording at a path that has none."""
    name = path.name.partition(".")[0] or "crawl"
    file = path if path.name.endswith(".warc.gz") else path.with_name(f"{name}.warc.gz")
    return shoal_command(f"run … --warc {shlex.quote(str(file))}")


def run_command(words: str) -> str:
    """Return a `shoal` command on the run that this worker works on."""
    runs = {run_id for _, run_id in _in_use if run_id}
    return shoal_command(f"{words} {runs.pop() if len(runs) == 1 else 'newest'}")
