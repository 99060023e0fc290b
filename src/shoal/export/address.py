"""Where a table is: the address of a database, and in it the table and its key."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from shoal.core.errors import InvalidSetting

SCHEMES = {"sqlite": "sqlite", "postgresql": "postgresql", "postgres": "postgresql"}
EXAMPLE = "postgresql://user@host/database?table=books"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableAddress:
    """A table in a database; `url` may hold a password, `shown` never does."""

    scheme: str
    url: str  # what the driver is told
    path: str  # the file of an SQLite database
    shown: str  # the database, fit for eyes
    table: str
    key: tuple[str, ...] = ()

    @property
    def place(self) -> str:
        """What to call the table in a message."""
        return f"{self.shown}?table={self.table}"

    def renamed(self, table: str) -> "TableAddress":
        """Return the address of another table in the same database."""
        return replace(self, table=table)


def is_table(place: str) -> bool:
    """Tell whether a place is meant as the address of a database."""
    return "://" in place


def shown_place(place: str) -> str:
    """Return a file or the address of a table as it may be shown: without a password."""
    return read_address(place).place if is_table(place) else place


def read_address(text: str, key: Sequence[str] = ()) -> TableAddress:
    """Read `postgresql://…?table=books&key=isbn` or `sqlite:///f.db?table=books`; raises InvalidSetting."""
    scheme = text.partition(":")[0].lower()
    if scheme not in SCHEMES:
        known = "sqlite:///FILE?table=NAME and postgresql://…?table=NAME"
        raise InvalidSetting("--to", f"knows no database called {scheme!r}. Tables go to {known}")
    parts = _split(text)
    options = parse_qsl(parts.query, keep_blank_values=True)
    kept = urlencode([(name, value) for name, value in options if name not in ("table", "key")])
    return TableAddress(
        scheme=SCHEMES[scheme],
        url=parts._replace(query=kept).geturl(),
        path=_file(parts) if scheme == "sqlite" else "",
        shown=_without_secrets(parts),
        table=_table(parts, dict(options).get("table", "")),
        key=(*(value for name, value in options if name == "key"), *key),
    )


def _split(text: str) -> SplitResult:
    """Split an address; one whose password would end up in its path, and so be shown, is refused."""
    try:
        parts = urlsplit(text)
        is_torn = "@" in parts.path + parts.fragment or ("@" in parts.query and "@" not in parts.netloc)
        if is_torn and parts.scheme != "sqlite":
            raise ValueError
    except ValueError:
        # Not the error's own text: it quotes the address, and with it the password.
        reason = (
            f"is no address of a database. Write it as {EXAMPLE}; in a password / is %2F, @ %40, # %23, ? %3F"
        )
        raise InvalidSetting("--to", reason) from None
    return parts


def _table(parts: SplitResult, name: str) -> str:
    if not name or not name.isprintable():
        example = f"{_without_secrets(parts)}?table=items"
        raise InvalidSetting("--to", f"names a database, but no table in it. Write: {example}")
    return name


def _file(parts: SplitResult) -> str:
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidSetting("--to", "names no file. Write: sqlite:///items.db?table=items")
    return path


def _without_secrets(parts: SplitResult) -> str:
    """Return an address that may be shown: its user, host and path, nothing else."""
    user, at, host = parts.netloc.rpartition("@")
    name, colon, _ = user.partition(":")
    return f"{parts.scheme}://{name}{colon and ':…'}{at}{host}{parts.path}"
