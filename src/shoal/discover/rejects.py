"""The reject file: what could not become a task, a line of JSON each."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from shoal.core.errors import InvalidSetting
from shoal.discover.source import Refusal

_FIELDS = {"where", "text", "reason"}

_encode = msgspec.json.Encoder().encode


class RejectFile:
    """Writes refusals to a file; one that is there is replaced, if it is a reject file."""

    def __init__(self, path: str) -> None:
        self.count = 0
        self._path = path
        with self._errors_named():
            if not _is_ours(Path(path)):
                raise InvalidSetting(path, "is there already and is not a reject file; name another")
            self._file = Path(path).open("wb")  # noqa: SIM115 - closed by `close`

    def write(self, refusal: Refusal) -> None:
        """Add one line; raises InvalidSetting when the disk takes no more."""
        self.count += 1
        with self._errors_named():
            self._file.write(_encode(refusal) + b"\n")

    def close(self) -> None:
        """Write what is still in memory."""
        with self._errors_named():
            self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise InvalidSetting(self._path, f"cannot be written: {error.strerror or error}") from error


def _is_ours(path: Path) -> bool:
    """Tell whether a file may be replaced: a slip of the hand may name the URL file itself."""
    if not path.is_file() or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        first = file.readline(1 << 16)
    try:
        return set(msgspec.json.decode(first, type=dict[str, str])) == _FIELDS
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
