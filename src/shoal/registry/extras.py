"""The command that installs an extra of Shoal."""

import shlex
from pathlib import Path

PACKAGE = "shoal"
_CHECKOUT = Path(__file__).parents[3]


def install_command(extra: str) -> str:
    """Return what to type to add an extra: pip adds it to what is installed, wherever that came from."""
    # Imported here: it is slow to import, and only a message needs it.
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        distribution(PACKAGE)
    except PackageNotFoundError:  # started from a checkout with PYTHONPATH
        return shlex.join(["pip", "install", "-e", f"{_CHECKOUT}[{extra}]"])
    return f"pip install '{PACKAGE}[{extra}]'"
