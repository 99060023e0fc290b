"""The address of a queue: one server or file, a namespace on it, and the files that its options name."""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, unquote, urlsplit

from shoal.core.errors import InvalidSetting
from shoal.core.redact import shown_address

OPTION = "namespace"
ONE_SERVER = (
    "takes one address, and Shoal does not spread a queue over several servers by itself. If one server is "
    "not enough, use a Redis Cluster and name one of its nodes, redis://NODE:6379?cluster=true, or a "
    "RabbitMQ cluster, amqp://USER:PASSWORD@NODE-1,NODE-2,NODE-3/?state=redis://HOST:6379/0"
)
_NAME = re.compile("[a-z0-9_-]{1,32}")
_IN_URL = re.compile(rf"[?&]{OPTION}=([a-z0-9_-]{{1,32}})(?=[&#]|$)")
# A space or comma in the path of a SQLite file does not begin another address.
_NEXT_ADDRESS = re.compile(r"[\s,][A-Za-z][A-Za-z0-9+.-]*://")


def one_address(queue: object) -> str:
    """Return the address of a queue; raises InvalidSetting for a list, or a text with several."""
    if not isinstance(queue, str) or _NEXT_ADDRESS.search(queue.strip()):
        raise InvalidSetting("queue", ONE_SERVER)
    return queue


def take_namespace(query: str) -> tuple[str, str]:
    """Return the query of an address without its namespace, and the namespace, "" if it has none.

    Raises InvalidSetting for a namespace that cannot be used on every backend.
    """
    options = query.split("&")
    names = [unquote(option.partition("=")[2]) for option in options if _is_namespace(option)]
    if not names:
        return query, ""
    if len(names) > 1:
        raise InvalidSetting("queue", f"has more than one namespace: {', '.join(map(repr, names))}")
    if not _NAME.fullmatch(names[0]):
        raise InvalidSetting(
            "queue",
            f"has a namespace that is not 1 to 32 of a-z, 0-9, '_' and '-': ?{OPTION}={names[0][:40]}",
        )
    return "&".join(option for option in options if not _is_namespace(option)), names[0]


def with_namespace(address: str, namespace: str) -> str:
    """Return an address with a namespace."""
    if not namespace:
        return address
    return f"{address}{'&' if '?' in address else '?'}{OPTION}={namespace}"


def namespace_in(url: str) -> str:
    """Return the namespace in an address, "" if it has none."""
    found = _IN_URL.findall(url)
    return found[-1] if found else ""


def shown_queue(url: str) -> str:
    """Return a queue's address to display: with its namespace, without a password."""
    shown, namespace = shown_address(url), namespace_in(url)
    # Between the user of a broker and that of its Redis it was redacted with the passwords.
    return shown if namespace_in(shown) == namespace else with_namespace(shown, namespace)


def _is_namespace(option: str) -> bool:
    return option.partition("=")[0] == OPTION


def check_files(url: str, names: Sequence[str]) -> None:
    """Check that the files that these options of an address name can be read; raises InvalidSetting."""
    options = dict(parse_qsl(url.rpartition("?")[2]))  # a password may contain a "?"
    for name in names:
        if not (path := options.get(name)):
            continue
        try:
            Path(path).expanduser().open("rb").close()
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            raise InvalidSetting("queue", f"names {name}={path}, which cannot be read: {reason}") from error


def sqlite_file(url: str) -> tuple[str, str]:
    """Return the file of a SQLite queue, and how it is synced; raises InvalidSetting."""
    parts = urlsplit(url)
    path = unquote(parts.path).removeprefix("/")
    if parts.netloc or not path:
        raise InvalidSetting("queue", f"names no file: {url!r}. Write sqlite:///shoal.db")
    query, namespace = take_namespace(parts.query)
    options = dict(parse_qsl(query))
    synchronous = options.pop("synchronous", "normal")
    if options or synchronous not in ("normal", "full"):
        raise InvalidSetting("queue", f"accepts only ?synchronous=full and ?namespace=NAME: {url!r}")
    return _file_in(namespace, path), synchronous


def _file_in(namespace: str, path: str) -> str:
    """Return the file of a namespace: `books.news.db` beside `books.db`."""
    if not namespace:
        return path
    file = Path(path)
    return str(file.with_name(f"{file.stem}.{namespace}{file.suffix}"))
