"""Table addresses: a database URL with the table and its key."""

from collections.abc import Sequence
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

import msgspec
from msgspec.structs import replace

from shoal.core.errors import InvalidSetting
from shoal.core.redact import redacted
from shoal.core.urls import is_object_url
from shoal.core.values import read_flag

SCHEMES = {"sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql"}
EXAMPLE = "postgresql://user@host/database?table=books"


class TableAddress(msgspec.Struct, frozen=True, kw_only=True):
    """A table in a database; `url` may contain a password, `shown` never does."""

    scheme: str
    url: str  # for the driver
    path: str  # the file of an SQLite database
    shown: str  # the database, for display
    table: str
    key: tuple[str, ...] = ()
    envelope: bool = False  # also write where and when each item was found

    @property
    def location(self) -> str:
        """The table's name in messages."""
        return f"{self.shown}?table={self.table}"

    def renamed(self, table: str) -> "TableAddress":
        """Return the address of another table in the same database."""
        return replace(self, table=table)


def is_table(location: str) -> bool:
    """Whether an output is a database URL."""
    return "://" in location and not is_object_url(location)


def display_location(location: str) -> str:
    """Return a file name or an address for display, without a password."""
    if not is_table(location):
        return location
    return read_address(location).location if _scheme(location) in SCHEMES else redacted(location)


def read_key(location: str, key: Sequence[str]) -> tuple[str, ...]:
    """Return the fields that identify a row, as the address of a table or the option names them."""
    return read_address(location, key).key if _scheme(location) in SCHEMES else tuple(key)


def _scheme(location: str) -> str:
    return location.partition("://")[0].lower()


def read_address(text: str, key: Sequence[str] = ()) -> TableAddress:
    """Read `postgresql://…?table=books&key=isbn` or `sqlite:///f.db?table=books`; raises InvalidSetting."""
    scheme = _scheme(text)
    if scheme not in SCHEMES:
        raise InvalidSetting(f"{scheme}://…", _unsupported(scheme))
    parts = _split(text)
    options = parse_qsl(parts.query, keep_blank_values=True)
    own = ("table", "key", "envelope")
    other_options = urlencode([(name, value) for name, value in options if name not in own])
    return TableAddress(
        scheme=SCHEMES[scheme],
        url=parts._replace(query=other_options).geturl(),
        path=_file(parts) if scheme == "sqlite" else "",
        shown=_without_secrets(parts),
        table=_table(parts, dict(options).get("table", "")),
        key=(*(value for name, value in options if name == "key"), *key),
        envelope=read_flag("envelope", dict(options).get("envelope", False)),
    )


def _split(text: str) -> SplitResult:
    """Split a URL; reject one whose password would end up in its path, and so be displayed."""
    try:
        parts = urlsplit(text)
        is_broken = "@" in parts.path + parts.fragment or ("@" in parts.query and "@" not in parts.netloc)
        if is_broken and parts.scheme != "sqlite":
            raise ValueError
    except ValueError:
        # Not the error's own text: it quotes the URL with the password.
        reason = (
            f"is not a database URL. Write it as {EXAMPLE}; "
            "in a password, write / as %2F, @ as %40, # as %23, ? as %3F"
        )
        raise InvalidSetting("--to", reason) from None
    return parts


def _unsupported(scheme: str) -> str:
    if scheme == "file":
        return "is not needed: write the path of the file alone"
    known = "a file, sqlite:///FILE?table=NAME or postgresql://…?table=NAME"
    return f"is not supported. Use {known}"


def _table(parts: SplitResult, name: str) -> str:
    if not name or not name.isprintable():
        example = f"{_without_secrets(parts)}?table=items"
        raise InvalidSetting("--to", f"has a database but no table. Write: {example}")
    return name


def _file(parts: SplitResult) -> str:
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidSetting("--to", "has no file. Write: sqlite:///items.db?table=items")
    return path


def _without_secrets(parts: SplitResult) -> str:
    """Return a URL for display: only user, host and path."""
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{parts.scheme}://{name}{colon and ':…'}{at}{host}{parts.path}"
