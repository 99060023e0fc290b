"""Errors of a run from a program: they name keywords where those of the command name its options."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

from shoal.core.errors import ShoalError
from shoal.fleet.sources.names import SOURCE_NAMES
from shoal.scrape.settings.scraper import SETTINGS
from shoal.script.options import OPTIONS

_KEYWORDS = {"--url": "urls", "--run": "run_id"} | {
    f"--{name.replace('_', '-')}": name for name in (*OPTIONS, *SOURCE_NAMES, *SETTINGS)
}
_SET = re.compile(r"--set ([a-z_]+=)")
_OPTION = re.compile(r"--[a-z]+(?:-[a-z]+)*")
_PRIVATE = re.compile(r"; they stay queued\. Resume the run with:((?: --allow-private \S+?(?=\.?(?:\s|$)))+)")
_COMMAND = re.compile(r"(shoal [a-z]+[^.;]*)")  # it is typed as it is


@contextmanager
def named_as_keywords() -> Iterator[None]:
    """Raise errors of the block with the names that a program uses."""
    try:
        yield
    except ShoalError as error:
        if error.args and isinstance(error.args[0], str):
            error.args = (in_python(error.args[0]), *error.args[1:])
        raise


def in_python(text: str) -> str:
    """Return a message with the names of keywords in place of options, except in a command to type."""
    text = _PRIVATE.sub(lambda found: f". Allow it with: allow_private={found[1].split()[1::2]}", text)
    parts = _COMMAND.split(text)
    return "".join(part if index % 2 else _with_keywords(part) for index, part in enumerate(parts))


def _with_keywords(text: str) -> str:
    return _OPTION.sub(lambda found: _KEYWORDS.get(found[0], found[0]), _SET.sub(r"\1", text))
