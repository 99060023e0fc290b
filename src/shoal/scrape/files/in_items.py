"""Downloads inside items: where they are, and the records that take their place."""

from collections.abc import Iterator, Sequence
from secrets import token_hex
from typing import Any

import msgspec

from shoal.core.errors import InvalidItem
from shoal.core.http import StoredFile
from shoal.scrape.files.download import Download

Place = list[str | int]


class HasDownloads(InvalidItem):
    """A value holds downloads, so it cannot be stored yet."""


class DownloadFinder:
    """Finds the downloads of an item while it is converted to plain JSON values."""

    def __init__(self) -> None:
        self._found: list[Download] = []
        # Not to be guessed: an item may hold any text of a page.
        self._mark = token_hex(16)

    def mark(self, download: Download) -> str:
        """Return the text that stands for a download until `take`."""
        self._found.append(download)
        return f"{self._mark} {len(self._found) - 1}"

    def take(self, data: Any) -> list[tuple[Place, Download]]:
        """Replace the downloads in plain data by None, and return them with their places."""
        found = []
        for place, text in list(_texts(data, [])):
            if text.startswith(self._mark):
                found.append((place, self._found[int(text.rpartition(" ")[2])]))
                _put(data, place, None)
        return found


def put_record(item: str, place: Sequence[str | int], file: StoredFile) -> Any:
    """Return an item, which is JSON, with the record of a file in its place."""
    data = msgspec.json.decode(item)
    _put(data, place, file.as_json())
    return data


def _texts(data: Any, place: Place) -> Iterator[tuple[Place, str]]:
    match data:
        case str():
            yield place, data
        case dict():
            for key, value in data.items():
                yield from _texts(value, [*place, key])
        case list():
            for index, value in enumerate(data):
                yield from _texts(value, [*place, index])
        case _:
            pass


def _put(data: Any, place: Sequence[str | int], value: Any) -> None:
    for key in place[:-1]:
        data = data[key]
    data[place[-1]] = value
