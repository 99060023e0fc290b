"""The `shoal` program, also started by `python -m shoal`."""

import gc

GARBAGE = 100_000  # objects between two collections, in place of 700


def start() -> None:
    """Run the typed command, and exit with its code."""
    # What a command imports stays in memory. Looking for garbage in it, again and again while it is imported
    # and once more at the exit, took a fifth of the time of a short run.
    gc.set_threshold(GARBAGE)
    from shoal.cli.main import main

    try:
        main()
    finally:
        gc.freeze()


if __name__ == "__main__":
    start()
