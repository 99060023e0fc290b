"""Runs an example on each of its queues, and says what it showed."""

import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from examples.common.patience import Failure
from examples.common.queues import FLEETS, ServerFailed, ServerMissing, open_sqlite

# Runs the example on a queue in a folder, and returns what to say about it.
Show = Callable[[Path, str], list[str]]


def main(name: str, show: Show, *, fleet: str = "postgres") -> int:
    """Run an example on SQLite and on the server of its fleet; `--queue sqlite` runs it on one of them."""
    chosen = sys.argv[2] if sys.argv[1:2] == ["--queue"] and len(sys.argv) == 3 else ""
    with tempfile.TemporaryDirectory(prefix=f"shoal-{name}-") as place:
        queues: dict[str, Callable[[], AbstractContextManager[str]]] = {
            "sqlite": lambda: open_sqlite(Path(place)),
            fleet: FLEETS[fleet],
        }
        for queue, opened in queues.items():
            if chosen in ("", queue):
                try:
                    _show(name, queue, opened, Path(place) / queue, show)
                except ServerMissing as error:
                    print(f"{name} on {queue}: skipped. {error}")
                except (Failure, ServerFailed) as error:
                    print(f"{name} on {queue}: FAILED. {error}", file=sys.stderr)
                    return 1
    return 0


def _show(
    name: str, queue: str, opened: Callable[[], AbstractContextManager[str]], folder: Path, show: Show
) -> None:
    began = time.monotonic()
    with opened() as url:
        lines = show(folder, url)
    print(f"{name} on {queue}: as expected, in {time.monotonic() - began:.0f} s")
    for line in lines:
        print(f"  {line}")
