"""The `shoal` program, also started by `python -m shoal`."""

import gc
import sys

from shoal.core.version import VERSION

HELP = ("", "-h", "--help")  # arguments for which neither the configuration nor a command is imported
INTERRUPTED = 130  # as `Exit` has it, whose import may be what was interrupted
GARBAGE = 100_000  # objects between two collections, in place of 700


def start() -> None:
    """Run the typed command, and exit with its code."""
    # What a command imports stays in memory. Looking for garbage in it, again and again while it is imported
    # and once more at the exit, took a fifth of the time of a short run.
    gc.set_threshold(GARBAGE)
    try:
        if sys.argv[1:] == ["--version"]:
            sys.stdout.write(f"shoal {VERSION}\n")
        elif " ".join(sys.argv[1:]) in HELP:
            from shoal.cli.registry import app_for

            app_for("--help")()
        else:
            from shoal.cli.main import main

            main()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        gc.freeze()


if __name__ == "__main__":
    start()
