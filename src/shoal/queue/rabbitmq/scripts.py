"""The Lua scripts: those of the Redis queue with the river between their lines, and a few of their own.

A script is the libraries of both in the order of their names, `frame/begin`, what a verb needs before it, the
verb as a function, what it needs after it, and `frame/end`, which hands the caller the bundles it made.
"""

from hashlib import sha1
from importlib.resources import files
from importlib.resources.abc import Traversable

from shoal.queue.redis.scripts import Script


def _texts(folder: Traversable) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.iterdir() if file.name.endswith(".lua")}


def _load() -> dict[str, Script]:
    plain, river = files("shoal.queue.redis") / "lua", files("shoal.queue.rabbitmq") / "lua"
    libraries = _texts(plain / "lib") | _texts(river / "lib")
    lib = "\n".join(libraries[name] for name in sorted(libraries))
    frame = _texts(river / "frame")
    verbs = _texts(plain) | _texts(river)
    return {name: _script(name, lib, verb, frame) for name, verb in _named(verbs)}


def _named(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.removesuffix(".lua"), text) for name, text in sorted(texts.items())]


def _script(name: str, lib: str, verb: str, frame: dict[str, str]) -> Script:
    text = "\n".join(
        [
            lib,
            frame["begin.lua"],
            frame.get(f"before_{name}.lua", ""),
            f"local function verb()\n{verb}\nend",
            "local answer = verb()",
            "if type(answer) == 'table' and answer.err then return answer end",
            frame.get(f"after_{name}.lua", "local extra = {}"),
            frame["end.lua"],
        ]
    )
    return Script(name, text, sha1(text.encode(), usedforsecurity=False).hexdigest())


SCRIPTS = _load()
