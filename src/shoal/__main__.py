"""The `shoal` program, also started by `python -m shoal`."""

import gc
import sys

INTERRUPTED = 130  # as `Exit` has it, whose import may be what was interrupted
GARBAGE = 100_000  # objects between two collections, in place of 700


def start() -> None:
    """Run the typed command, and exit with its code."""
    # What a command imports stays in memory. Looking for garbage in it, again and again while it is imported
    # and once more at the exit, took a fifth of the time of a short run.
    gc.set_threshold(GARBAGE)
    try:
        from shoal.cli.main import main

        main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()


if __name__ == "__main__":
    start()
