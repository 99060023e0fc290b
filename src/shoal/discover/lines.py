"""The lines of a text file: streamed, unpacked on the way, and none longer than memory allows."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import IO, cast

from shoal.core.errors import InvalidInput, InvalidSetting

MAX_LINE = 1 << 20  # characters
KEPT = 1000  # of a longer one

STDIN = "-"
GZIP = b"\x1f\x8b"
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb": "utf-8-sig"}


class LongLine(str):
    """The beginning of a line that was too long to be kept."""

    __slots__ = ()

    reason = f"the line has more than {MAX_LINE:,} characters"


def bounded(text: IO[str]) -> Iterator[str]:
    """Yield every line with its end, a LongLine for one that is too long."""
    while line := text.readline(MAX_LINE + 1):
        yield line if len(line) <= MAX_LINE else _passed_over(text, line)


def _passed_over(text: IO[str], line: str) -> LongLine:
    rest = line
    while rest and rest[-1] != "\n":
        rest = text.readline(MAX_LINE)
    return LongLine(line[:KEPT])


class Lines:
    """The lines of a file, or of standard input for "-"; gzip and UTF-16 are known by their first bytes."""

    def __init__(self, path: str, *, encoding: str | None = None) -> None:
        self.name = "stdin" if path == STDIN else path
        self.number = 0
        self._path, self._encoding = path, encoding
        self._begins: int | None = None
        self._file: IO[bytes] | None = None
        self._size = 0

    @property
    def where(self) -> str:
        """The place of the last line, or of the first line of the record that it belongs to."""
        return f"{self.name}:{self._begins or self.number}"

    @property
    def progress(self) -> float | None:
        """The part of the file that was read, 0 to 1; None where its size is not known."""
        if self._file is None or not self._size:
            return None
        return 1.0 if self._file.closed else min(1.0, self._file.tell() / self._size)

    def begin(self) -> None:
        """Take the next line for the first one of a record, which may have several."""
        self._begins = self.number + 1

    def __iter__(self) -> Iterator[str]:
        self.number, self._begins = 0, None
        with self._errors_named(), self._opened() as file:
            yield from self._numbered(file)

    def _numbered(self, file: BufferedReader) -> Iterator[str]:
        text = _decoded(_unpacked(file), self._encoding)
        try:
            for line in bounded(text):
                self.number += 1
                yield line
        finally:
            text.detach()  # else it would close standard input when it is gone

    @contextmanager
    def _opened(self) -> Iterator[BufferedReader]:
        if self._path == STDIN:
            yield cast(BufferedReader, sys.stdin.buffer)
            return
        with Path(self._path).open("rb") as file:
            self._file, self._size = file, Path(self._path).stat().st_size
            yield file

    @contextmanager
    def _errors_named(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            why = "breaks off" if isinstance(error, EOFError) else "is damaged"
            raise InvalidInput(
                f"{self.name}: the gzip data {why} after line {self.number:,}. "
                "What came before was taken; get the file anew and run the same command again."
            ) from error
        except LookupError as error:
            raise InvalidSetting(
                "encoding", f"{self._encoding!r} is not known; try utf-8 or latin-1"
            ) from error
        except OSError as error:
            raise InvalidSetting(self.name, f"cannot be read: {error.strerror or error}") from error


def _unpacked(file: BufferedReader) -> BufferedReader:
    if file.peek(2)[:2] != GZIP:
        return file
    return cast(BufferedReader, gzip.GzipFile(fileobj=file))


def _decoded(stream: BufferedReader, encoding: str | None) -> TextIOWrapper:
    found = encoding or _BOMS.get(stream.peek(2)[:2], "utf-8")
    return TextIOWrapper(stream, found, errors="replace", newline=None)
