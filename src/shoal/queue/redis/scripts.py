"""The Lua scripts: the files of `lua/lib` in front of one file per verb."""

from dataclasses import dataclass
from hashlib import sha1
from importlib.resources import files
from importlib.resources.abc import Traversable


@dataclass(frozen=True, slots=True)
class Script:
    """A script as it is sent to the server, and the digest under which the server caches it."""

    name: str
    text: str
    sha: str


def _lua(folder: Traversable) -> list[Traversable]:
    return sorted(
        (file for file in folder.iterdir() if file.name.endswith(".lua")), key=lambda file: file.name
    )


def _load() -> dict[str, Script]:
    home = files("shoal.queue.redis") / "lua"
    lib = "\n".join(file.read_text() for file in _lua(home / "lib"))
    scripts = {}
    for file in _lua(home):
        name = file.name.removesuffix(".lua")
        text = f"{lib}\n{file.read_text()}"
        scripts[name] = Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())
    return scripts


SCRIPTS = _load()
