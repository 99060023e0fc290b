"""The Lua scripts: the files of `lua/lib` in front of one file per verb."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent to the server, and the digest under which the server caches it."""

    name: str
    text: str
    sha: str


def make_script(name: str, libraries: Sequence[str], body: str) -> Script:
    """Return a script: its first library, in it a function of the others, in that a function of the body.

    For every function that a script makes, and for every local name of the block around it that it uses,
    Lua 5.1 searches a list of all such names. It does not search for names of a block further out. One block
    for everything made that list long, and a call spent up to 70 microseconds in it.
    """
    first, *others = libraries
    inner = [*others, "local function body()", body, "end", "return body()"]
    text = "\n".join([first, "local function run()", *inner, "end", "return run()"])
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


def _load() -> dict[str, Script]:
    home = Path(__file__).with_name("lua")
    libraries = [file.read_text() for file in sorted((home / "lib").glob("*.lua"))]
    verbs = sorted(home.glob("*.lua"))
    return {file.stem: make_script(file.stem, libraries, file.read_text()) for file in verbs}


SCRIPTS = _load()
