"""The `shoal` program, also started by `python -m shoal`."""

import atexit
import gc
import io
import os
import sys
import threading
from contextlib import suppress

GARBAGE = 100_000  # objects between two collections, in place of 700
FILE: type = io.IOBase.__mro__[1]  # a check for the abstract class itself takes ten times as long


def start() -> None:
    """Run the typed command, and exit with its code."""
    # What a command imports stays in memory. Looking for garbage in it, again and again while it is imported
    # and once more at the exit, took a fifth of the time of a short run.
    gc.set_threshold(GARBAGE)
    import_msgspec()
    from shoal.cli.main import main

    gc.freeze()
    try:
        main()
    except SystemExit as ending:
        if ending.code is None or isinstance(ending.code, int):
            end_process(ending.code or 0)
        raise
    finally:
        gc.freeze()


def import_msgspec() -> None:
    """Import msgspec without typing_extensions, from which it takes nothing that Python itself lacks."""
    is_hidden = sys.modules.setdefault("typing_extensions", None) is None  # type: ignore[arg-type]
    try:
        import msgspec  # noqa: F401
    finally:
        if is_hidden:
            del sys.modules["typing_extensions"]


def end_process(code: int) -> None:
    """Do what the interpreter does at an exit, except to free all that was imported, object by object.

    Returns if the interpreter has to do it: standard output cannot be written, or Ctrl-C was pressed.
    """
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # waits for the threads
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            if stream and not stream.closed:
                stream.flush()
        _close_files()
    except (OSError, ValueError, KeyboardInterrupt):
        return
    os._exit(code)


def _close_files() -> None:
    """Close the files that the user's code has left open: what they hold is not written yet."""
    objects = gc.get_objects()  # without those that were there before the user's code
    kinds = {kind for kind in set(map(type, objects)) if issubclass(kind, FILE)}
    if kinds:
        # The last first: a file of text is made upon one of bytes.
        for file in reversed([one for one in objects if type(one) in kinds]):
            if file not in (sys.stdin, sys.stdout, sys.stderr):
                with suppress(Exception):
                    file.close()


if __name__ == "__main__":
    start()
