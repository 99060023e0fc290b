"""Regular expressions that are compiled at the first use.

A run imports more than a hundred and uses a third of them: to compile all took 3 % of the CPU time of a run
of some pages.
"""

import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    lazy_pattern = re.compile  # what type checkers see
else:

    def lazy_pattern(text, flags=0):
        """Return a pattern whose methods can be called; `re.sub` and its like do not take it."""
        return LazyPattern(text, flags)


class LazyPattern:
    """A regular expression that compiles itself when one of its methods is called."""

    def __init__(self, text: str | bytes, flags: int) -> None:
        self._text, self._flags = text, flags

    def __getattr__(self, name: str) -> Any:
        found = getattr(re.compile(self._text, self._flags), name)
        setattr(self, name, found)  # found without this method from now on
        return found

    def __repr__(self) -> str:
        return repr(re.compile(self._text, self._flags))
