"""A Python prompt with history and completion."""

import atexit
import code
import os
import readline
import rlcompleter
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

MAX_HISTORY = 2_000  # lines


def interact(names: dict[str, Any], banner: str) -> None:
    """Open a prompt with these names: IPython where it is installed, else Python's own."""
    sys.path.insert(0, str(Path.cwd()))  # as in Python's own prompt
    if sys.stdin.isatty() and find_spec("IPython"):
        sys.stderr.write(f"{banner}\n")
        import_module("IPython").start_ipython(argv=["--no-banner"], user_ns=names)
        return
    if sys.stdin.isatty():
        _complete(names)
    code.interact(banner=banner, local=names, exitmsg="")


def _complete(names: dict[str, Any]) -> None:
    """Complete names with the Tab key, and remember what was typed."""
    readline.set_completer(rlcompleter.Completer(names).complete)
    readline.parse_and_bind("tab: complete")
    file = _history_file()
    with suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch(mode=0o600)
        readline.read_history_file(file)
    readline.set_history_length(MAX_HISTORY)
    atexit.register(_save_history, file)


def _save_history(file: Path) -> None:
    with suppress(OSError):
        readline.write_history_file(file)


def _history_file() -> Path:
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(state) / "shoal" / "shell_history"
