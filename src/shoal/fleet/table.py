"""A written table of partitions: worker number to the partitions that it has, checked against a run."""

import tomllib
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import msgspec

from shoal.core.errors import InvalidInput, InvalidSetting
from shoal.core.values import hint, read_whole, read_words

Homes = dict[str, int]  # partition to worker number
MOST_WORKERS = 10_000
EXAMPLE = '1 = ["CA", "NV"]'


def read_table_file(file: Path) -> Homes:
    """Read a table from a file in TOML or JSON; an error names the file and the line's key."""
    try:
        text = file.read_text(encoding="utf-8")
        given = msgspec.json.decode(text) if file.suffix.lower() == ".json" else tomllib.loads(text)
    except (ValueError, OSError) as error:
        raise InvalidInput(f"{file} cannot be read: {error}. It has lines such as {EXAMPLE}") from error
    return read_table(given, str(file))


def read_table(given: Any, where: str) -> Homes:
    """Read worker number to partitions; raises InvalidSetting for a partition that two workers have."""
    if not isinstance(given, Mapping) or not given:
        raise InvalidSetting(where, f"must give each worker's number its partitions, such as {EXAMPLE}")
    homes: Homes = {}
    for key, names in given.items():
        number = read_whole(f"{where}: worker {key!r}", key, least=1, most=MOST_WORKERS)
        for name in read_words(f"{where}: worker {number}", names):
            if name in homes:
                raise InvalidSetting(where, _twice(name, homes[name], number))
            homes[name] = number
    return homes


def check_table(homes: Mapping[str, int], partitions: Collection[str], run_id: str) -> None:
    """Raise InvalidSetting when the table lacks a partition of the run, or names one it does not have."""
    key = "the table of partitions"
    for name in sorted(set(homes) - set(partitions)):
        known = sorted(set(partitions) - set(homes)) or sorted(partitions)
        advice = hint(name, known) if known else f"It has no tasks yet: shoal status {run_id}"
        raise InvalidSetting(
            key, f"gives {name!r} to worker {homes[name]}, but run {run_id} has none. {advice}"
        )
    missing = sorted(set(partitions) - set(homes))
    if missing:
        worker = max(homes.values())
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        line = f"{worker} = [{', '.join(map(_quoted, missing))}]"
        raise InvalidSetting(
            key,
            f"gives {missing[0]!r}{more} of run {run_id} to nobody; add to a worker's line, such as {line}",
        )


def _twice(name: str, one: int, other: int) -> str:
    if one == other:
        return f"names {name!r} twice for worker {one}; take one of them out"
    return f"gives {name!r} to worker {one} and to worker {other}; take it out of one line"


def _quoted(name: str) -> str:
    return msgspec.json.encode(name).decode()
