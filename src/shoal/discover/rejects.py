"""The reject file: one JSON line for each entry that could not become a task."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.discover.source import Refusal

_FIELDS = {"where", "text", "reason"}

_encode = msgspec.json.Encoder().encode


class RejectFile:
    """Writes refusals to a file; replaces an existing file only if it is a reject file."""

    def __init__(self, path: str) -> None:
        self.count = 0
        self._path = path
        with self._translate_errors():
            if not _is_replaceable(Path(path)):
                raise InvalidSetting(path, "already exists and is not a reject file; choose another name")
            self._file = Path(path).open("wb")  # noqa: SIM115 - closed by `close`

    def write(self, refusal: Refusal) -> None:
        """Write one line; raises InvalidSetting if the disk is full."""
        self.count += 1
        with self._translate_errors():
            self._file.write(_encode(refusal) + b"\n")

    def close(self) -> None:
        """Flush and close the file."""
        with self._translate_errors():
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidSetting(self._path, f"cannot be written: {error.strerror or error}") from error


def _is_replaceable(path: Path) -> bool:
    """Tell whether a file may be replaced: the user may have typed the URL file by mistake."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        first = file.readline(1 << 16)
    try:
        return set(msgspec.json.decode(first, type=dict[str, str])) == _FIELDS
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
