"""The Lua scripts: those of the Redis queue, extended by the bundles in the broker, and a few of their own.

A script consists of the libraries of both folders in the order of their names, `frame/begin`, the frame
before the verb, the verb as a function, the frame after it, and `frame/end`, which returns the bundles to
publish.
"""

from collections.abc import Sequence
from pathlib import Path

from shoal.queue.redis import scripts as redis_scripts
from shoal.queue.redis.scripts import Script, make_script


def _texts(folder: Path) -> dict[str, str]:
    return {file.name: file.read_text() for file in folder.glob("*.lua")}


def _load() -> dict[str, Script]:
    redis, rabbitmq = Path(redis_scripts.__file__).with_name("lua"), Path(__file__).with_name("lua")
    libraries = _texts(redis / "lib") | _texts(rabbitmq / "lib")
    lib = [libraries[name] for name in sorted(libraries)]
    frame = _texts(rabbitmq / "frame")
    verbs = _texts(redis) | _texts(rabbitmq)
    return {name: _script(name, lib, verb, frame) for name, verb in _named(verbs)}


def _named(texts: dict[str, str]) -> list[tuple[str, str]]:
    return [(name.removesuffix(".lua"), text) for name, text in sorted(texts.items())]


def _script(name: str, lib: Sequence[str], verb: str, frame: dict[str, str]) -> Script:
    body = "\n".join(
        [
            frame["begin.lua"],
            frame.get(f"before_{name}.lua", ""),
            f"local function verb()\n{verb}\nend",
            "local reply = verb()",
            "if type(reply) == 'table' and reply.err then return reply end",
            frame.get(f"after_{name}.lua", "local extra = {}"),
            frame["end.lua"],
        ]
    )
    return make_script(name, lib, body)


SCRIPTS = _load()
