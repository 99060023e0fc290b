"""A partition table: worker number to partitions, checked against a run."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.values import hint, read_whole, read_words

Homes = dict[str, int]  # partition to worker number
MAX_WORKERS = 10_000
EXAMPLE = '1 = ["CA", "NV"]'


def read_table_file(file: Path) -> Homes:
    """Read a table from a TOML or JSON file; an error names the file and the key."""
    try:
        text = file.read_text(encoding="utf-8")
        given = msgspec.json.decode(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, OSError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}. Its lines look like {EXAMPLE}") from error
    return read_table(given, str(file))


def read_table(given: Any, where: str) -> Homes:
    """Read worker number to partitions; raises InvalidSetting if two workers have the same partition."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidSetting(where, f"must map each worker number to its partitions, such as {EXAMPLE}")
    homes: Homes = {}
    for key, names in given.items():
        number = read_whole(f"{where}: worker {key!r}", key, least=1, most=MAX_WORKERS)
        for name in read_words(f"{where}: worker {number}", names):
            if name in homes:
                raise InvalidSetting(where, _twice(name, homes[name], number))
            homes[name] = number
    return homes


def check_table(homes: Mapping[str, int], partitions: Collection[str], owner: str) -> None:
    """Raise InvalidSetting if the table lacks a partition of a run or scraper, or names one it has not."""
    key = "the partition table"
    for name in sorted(set(homes) - set(partitions)):
        if missing := sorted(set(partitions) - set(homes)):
            advice = hint(name, missing, "Partitions without a worker")
        elif partitions:
            advice = hint(name, sorted(partitions))
        else:
            advice = "It has no tasks yet: enqueue some first"
        raise InvalidSetting(
            key, f"gives {name!r} to worker {homes[name]}, but {owner} has no such partition. {advice}"
        )
    missing = sorted(set(partitions) - set(homes))
    if missing:
        worker = max(homes.values())
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        line = f"{worker} = [{', '.join(map(_quoted, missing))}]"
        raise InvalidSetting(
            key,
            f"gives {missing[0]!r}{more} of {owner} to no worker; add it to a line, such as {line}",
        )


def _twice(name: str, one: int, other: int) -> str:
    if one == other:
        return f"names {name!r} twice for worker {one}; remove one of them"
    return f"gives {name!r} to worker {one} and to worker {other}; remove it from one of them"


def _quoted(name: str) -> str:
    return msgspec.json.encode(name).decode()
