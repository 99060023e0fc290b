"""Output: messages on stderr, data on stdout."""

import io
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TextIO

import msgspec
import typer

from shoal.core.errors import InvalidInput
from shoal.core.text import printable
from shoal.core.values import counted as counted
from shoal.fleet.status.rows.row import fields_of
from shoal.fleet.telemetry.logs import LogStream, Stream, descriptor_of

_C1 = re.compile("[\x7f-\x9f]")
MEGABYTE = 1 << 20


class MessageStream(io.TextIOBase):
    """Stands in for stderr while a command works: a reader that stalls loses messages, and stops nothing.

    The process that shows messages also renews the leases of its workers, so it must not wait for a reader.
    """

    def __init__(self, file: TextIO) -> None:
        self._file, self._stream = file, LogStream(Stream.STDERR)

    @property
    def encoding(self) -> str:  # type: ignore[override]  # which has no setter here
        return self._file.encoding

    def isatty(self) -> bool:
        return self._file.isatty()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        """Write a message as soon as the reader takes it."""
        self._stream.write_bytes(text.encode(self.encoding, "backslashreplace"))
        return len(text)

    def drain(self) -> None:
        """Wait until the reader has taken everything."""
        self._stream.close(timeout=None)


@contextmanager
def messages_without_waiting() -> Iterator[None]:
    """Let no message of this block wait for the reader of stderr; wait for it at the end."""
    before = sys.stderr
    if descriptor_of(before) is None:
        yield
        return
    sys.stderr = stream = MessageStream(before)
    try:
        yield
    finally:
        sys.stderr = before
        stream.drain()


def say(text: str, *, label: str = "", style: str = "") -> None:
    """Print a message to stderr; a terminal shows its label in a style, or all of it without a label."""
    text = "\n".join(map(printable, text.split("\n")))
    if sys.stderr.isatty():
        from shoal.cli.terminal import print_styled  # rich is slow to import

        print_styled(text, label, style)
    else:
        sys.stderr.write(f"{label}{text}\n")


def put_message(text: str) -> None:
    """Write a message as one line of JSON to stderr."""
    put_line({"message": text})


def put_line(record: Mapping[str, Any]) -> None:
    """Write one line of JSON to stderr, beside the data on stdout."""
    sys.stderr.write(msgspec.json.encode(record).decode() + "\n")


def print_error(message: str) -> None:
    """Print an error: what went wrong and what to type next."""
    say(message, label="error: ", style="bold red")


def confirm(question: str) -> None:
    """Ask on stderr, so that stdout has data only; raises Abort, or InvalidInput if nobody can reply."""
    sys.stderr.write(f"{printable(question)} [y/N]: ")
    sys.stderr.flush()
    reply = sys.stdin.readline()
    if not reply:
        sys.stderr.write("\n")
        raise InvalidInput("Nothing was changed: there is no terminal to confirm it. Add --yes")
    if reply.strip().lower() not in ("y", "yes"):
        raise typer.Abort


def put_text(text: str) -> None:
    """Write untrusted text to stdout, without control characters if stdout is a terminal."""
    if sys.stdout.isatty():
        text = "\n".join(map(printable, text.split("\n")))
    sys.stdout.write(f"{text}\n")


def put_json(record: Any, **more: Any) -> None:
    """Write a row of a report, with more fields behind its own, as one line of JSON to stdout."""
    line = msgspec.json.encode(record_fields(record) | more if more else record).decode()
    # JSON need not escape these, but some terminals interpret them.
    sys.stdout.write(_C1.sub(lambda found: f"\\u{ord(found[0]):04x}", line) + "\n")
    sys.stdout.flush()


def record_fields(row: Any) -> dict[str, Any]:
    """Return the fields of a row of a report, or of a mapping."""
    return dict(row) if isinstance(row, Mapping) else fields_of(row)


def shown(value: Any) -> str:
    """Return a value formatted for a table."""
    match value:
        case None:
            return "-"
        case bool():
            return "yes" if value else "no"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.1f}"
        case _:
            return str(value)


def size_text(count: int) -> str:
    """Return a number of bytes in KB or MB."""
    return f"{count / 1e6:,.1f} MB" if count >= 100_000 else f"{count / 1e3:,.1f} KB"


def megabytes(count: Any) -> str:
    """Return a number of bytes in megabytes."""
    return f"{count / MEGABYTE:,.0f} MB" if isinstance(count, int) else "-"


def duration(seconds: float | None) -> str:
    """Return a duration in at most two units: "3 s", "2 min 10 s", "4 h 5 min", "30 d"."""
    if seconds is None:
        return "-"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    days, hours = divmod(whole // 3600, 24)
    if days >= 3:
        return f"{days:,} d {hours} h" if hours else f"{days:,} d"
    return f"{whole // 3600:,} h {whole % 3600 // 60} min"
