"""On which line of a project file a key stands, for errors and for `shoal config`."""

import re
from collections.abc import Mapping
from typing import Any

_NAME = r"""[\w-]+|"[^"\n]*"|'[^'\n]*'"""
_KEY = rf"(?:{_NAME})(?:\s*\.\s*(?:{_NAME}))*"
_HEADER = re.compile(rf"\s*\[\s*({_KEY})\s*\]\s*(?:#.*)?$")
_LIST_HEADER = re.compile(r"\s*\[\[")
_PAIR = re.compile(rf"\s*({_KEY})\s*=\s*(.*)")
_QUOTES = ('"""', "'''")

Lines = Mapping[str, int]  # by the key with its tables: workers.count


def toml_lines(text: str) -> dict[str, int]:
    """Return the line of each table and key of a valid TOML file, without inline and repeated tables."""
    found: dict[str, int] = {}
    table: str | None = ""
    ending = ""  # of a text that goes over several lines
    for number, line in enumerate(text.splitlines(), start=1):
        if ending:
            ending = "" if ending in line else ending
        elif _LIST_HEADER.match(line):
            table = None
        elif header := _HEADER.match(line):
            table = _plain(header[1])
            found.setdefault(table, number)
        elif pair := _PAIR.match(line):
            if table is not None:
                found[f"{table}.{_plain(pair[1])}" if table else _plain(pair[1])] = number
            ending = next((mark for mark in _QUOTES if pair[2].count(mark) == 1), "")
    return found


def _plain(key: str) -> str:
    return ".".join(part.strip().strip("\"'") for part in re.findall(_NAME, key))


def yaml_lines(text: str) -> dict[str, int]:
    """Return the line of each key of a valid YAML file."""
    import yaml

    found: dict[str, int] = {}

    def read(node: Any, within: str) -> None:
        for key, value in node.value if isinstance(node, yaml.MappingNode) else ():
            name = f"{within}{key.value}"
            found[name] = key.start_mark.line + 1
            read(value, f"{name}.")

    read(yaml.compose(text, Loader=yaml.SafeLoader), "")
    return found


def line_of(key: str, lines: Lines) -> int | None:
    """Return the line of a key, or of the innermost table that has one."""
    while key and key not in lines:
        key = key.rpartition(".")[0]
    return lines.get(key)
