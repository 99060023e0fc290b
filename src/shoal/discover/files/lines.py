"""The lines of a text file: streamed, decompressed, and limited in length."""

import gzip
import sys
import zlib
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import BufferedReader, TextIOWrapper
from pathlib import Path
from typing import IO, cast

from shoal.core.errors import InvalidInput, InvalidSetting

MAX_LINE = 1 << 20  # characters
KEPT_LENGTH = 1000  # characters of a line that is too long

STDIN = "-"
GZIP = b"\x1f\x8b"
_BOMS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb": "utf-8-sig"}


class LongLine(str):
    """The beginning of a line that was too long."""

    __slots__ = ()

    reason = f"the line has more than {MAX_LINE:,} characters"


def read_bounded(text: IO[str]) -> Iterator[str]:
    """Yield every line with its line ending; a LongLine for one that is too long."""
    while line := text.readline(MAX_LINE + 1):
        yield line if len(line) <= MAX_LINE else _skip_rest(text, line)


def _skip_rest(text: IO[str], line: str) -> LongLine:
    rest = line
    while rest and rest[-1] != "\n":
        rest = text.readline(MAX_LINE)
    return LongLine(line[:KEPT_LENGTH])


class Lines:
    """The lines of a file, or of standard input for "-"; gzip and UTF-16 are detected by the first bytes."""

    def __init__(self, path: str, *, encoding: str | None = None) -> None:
        self.name = "stdin" if path == STDIN else path
        self.number = 0
        self._path, self._encoding = path, encoding
        self._record_start: int | None = None

    @property
    def where(self) -> str:
        """The position of the last line, or of the first line of its record."""
        return f"{self.name}:{self._record_start or self.number}"

    def begin_record(self) -> None:
        """Mark the next line as the first of a record, which may span several lines."""
        self._record_start = self.number + 1

    def __iter__(self) -> Iterator[str]:
        self.number, self._record_start = 0, None
        with self._translate_errors(), self._open() as file:
            yield from self._count_lines(file)

    def _count_lines(self, file: BufferedReader) -> Iterator[str]:
        text = _decode(_decompress(file), self._encoding)
        try:
            for line in read_bounded(text):
                self.number += 1
                yield line
        finally:
            text.detach()  # otherwise it would close standard input when it is garbage-collected

    def _open(self) -> AbstractContextManager[BufferedReader]:
        if self._path == STDIN:
            return nullcontext(cast(BufferedReader, sys.stdin.buffer))
        return Path(self._path).open("rb")

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            why = "is truncated" if isinstance(error, EOFError) else "is damaged"
            raise InvalidInput(
                f"{self.name}: the gzip data {why} after line {self.number:,}. "
                "The lines before it were read; get the file again and rerun the same command."
            ) from error
        except LookupError as error:
            raise InvalidSetting(
                "encoding", f"{self._encoding!r} is unknown; try utf-8 or latin-1"
            ) from error
        except OSError as error:
            raise InvalidSetting(self.name, f"cannot be read: {error.strerror or error}") from error


def _decompress(file: BufferedReader) -> BufferedReader:
    if file.peek(2)[:2] != GZIP:
        return file
    return cast(BufferedReader, gzip.GzipFile(fileobj=file))


def _decode(stream: BufferedReader, encoding: str | None) -> TextIOWrapper:
    found = encoding or _BOMS.get(stream.peek(2)[:2], "utf-8")
    return TextIOWrapper(stream, found, errors="replace", newline=None)
