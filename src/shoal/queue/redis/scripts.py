"""The Lua scripts: the files of `lua/lib` in front of one file per verb."""

from hashlib import sha1
from pathlib import Path

from shoal.core.lazy.dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent to the server, and the digest under which the server caches it."""

    name: str
    text: str
    sha: str


def _load() -> dict[str, Script]:
    home = Path(__file__).with_name("lua")
    lib = "\n".join(file.read_text() for file in sorted((home / "lib").glob("*.lua")))
    scripts = {}
    for file in sorted(home.glob("*.lua")):
        name = file.stem
        text = f"{lib}\n{file.read_text()}"
        scripts[name] = Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())
    return scripts


SCRIPTS = _load()
