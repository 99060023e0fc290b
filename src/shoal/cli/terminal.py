"""Messages in colours, for a terminal. Uses rich."""

from functools import cache

from rich.console import Console
from rich.markup import escape
from rich.text import Text

from shoal.core.text import printable


@cache
def console() -> Console:
    """Return the console for messages: stderr."""
    return Console(stderr=True, highlight=False, soft_wrap=True)


def print_styled(text: str, label: str, style: str) -> None:
    """Print a message to stderr: its label in a style, or all of it without a label."""
    console().print(Text.assemble((label, style), text) if label else Text(text, style))


def escaped(text: object) -> str:
    """Return untrusted text without control characters and markup."""
    return escape(printable(str(text)))
