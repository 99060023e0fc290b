"""What the benchmark says while it runs."""

import sys
import time

_BEGAN = time.monotonic()


def say(text: str) -> None:
    """Write a line about what is running to stderr."""
    minutes, seconds = divmod(int(time.monotonic() - _BEGAN), 60)
    print(f"{minutes:3d}:{seconds:02d}  {text}", file=sys.stderr, flush=True)
