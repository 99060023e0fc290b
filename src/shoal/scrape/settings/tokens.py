"""The setting `tokens`: the source of API tokens, their place in a request, and the hosts they may go to."""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shoal.core.errors import InvalidSetting, InvalidUrl
from shoal.core.urls import canonical
from shoal.core.values import read_text
from shoal.scrape.settings.declaration import ON, CompactSetting

VARIABLE = "SHOAL_TOKENS"
FROM_ENVIRONMENT, FROM_FILE = "env", "file:"
HEADER, FORM = "Authorization", "Bearer {}"
_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTIONS = ("hosts", "header", "query", "bucket", "from")
_EXAMPLE = "{'from': 'env:API_TOKENS', 'hosts': 'api.example.com'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenSettings:
    """Tokens, the origins they may be sent to, and where in a request. `repr` hides the tokens."""

    origins: frozenset[str]
    given: tuple[str, ...] = field(default=(), repr=False)
    file: Path | None = None
    variable: str | None = None
    provider: Callable[[], Any] | None = None
    header: str = HEADER
    form: str = FORM
    query: str | None = None
    bucket: str = ""  # which of a token's rate-limit buckets applies


def has_tokens(value: Any) -> bool:
    """Tell whether a value of the setting holds tokens itself, rather than say where they are."""
    source = value.get("from", True) if isinstance(value, Mapping) else value
    return not isinstance(source, (str, bool, Path, type(None)) if source is value else (str, bool))


def _read_source(key: str, value: Any) -> dict[str, Any]:
    if callable(value):
        return {"provider": value}
    if isinstance(value, Path):
        return {"file": _read_file(key, value)}
    if value is True or (isinstance(value, str) and value.lower() in (*ON, FROM_ENVIRONMENT)):
        return {"variable": VARIABLE}
    if isinstance(value, str):
        return _read_location(key, value)
    if isinstance(value, Iterable) and not isinstance(value, (Mapping, bytes)):
        return {"given": _read_list(key, value)}
    raise InvalidSetting(key, "must be a list, a file, env:NAME or a function")


def _read_location(key: str, text: str) -> dict[str, Any]:
    start, colon, name = text.partition(":")
    if start == FROM_ENVIRONMENT and colon and _VARIABLE_NAME.fullmatch(name):
        return {"variable": name}
    if text.startswith(FROM_FILE) or Path(text).is_file():
        return {"file": _read_file(key, Path(text.removeprefix(FROM_FILE)))}
    raise InvalidSetting(
        key,
        "must be 'env:NAME' or an existing file, 'file:NAME'. Do not write a token itself here, "
        "where others can read it",
    )


def _read_file(key: str, path: Path) -> Path:
    if not path.is_file():
        raise InvalidSetting(key, f"found no file {path}. Create it with one token per line")
    return path.absolute()


def _read_list(key: str, values: Iterable[Any]) -> tuple[str, ...]:
    tokens = tuple(values)
    if not tokens or not all(isinstance(token, str) and token.strip() for token in tokens):
        raise InvalidSetting(key, "must be a non-empty list of strings")
    return tuple(token.strip() for token in tokens)


def _read_origins(key: str, hosts: Any) -> frozenset[str]:
    words = hosts.replace(",", " ").split() if isinstance(hosts, str) else hosts
    if not words or not all(isinstance(word, str) for word in words):
        raise InvalidSetting(key, "must be one or more hosts, such as api.example.com")
    return frozenset(_read_origin(key, word) for word in words)


def _read_origin(key: str, host: str) -> str:
    try:
        url = canonical(host if "://" in host else f"https://{host}")
    except InvalidUrl as error:
        raise InvalidSetting(key, f"has an invalid host: {error.reason}") from error
    origin, path = "/".join(url.split("/", 3)[:3]), url.split("/", 3)[3]
    if path:
        raise InvalidSetting(key, f"must be hosts without a path; write {origin!r}")
    return origin


def _read_header(key: str, value: Any) -> tuple[str, str]:
    name, colon, form = (part.strip() for part in str(value).partition(":"))
    form = form if colon else "{}"
    if not _NAME.fullmatch(name) or form.count("{}") != 1 or not form.isprintable():
        raise InvalidSetting(key, "must be a header such as 'X-Api-Key' or 'Authorization: Bearer {}'")
    if form.replace("{}", "").count("{") or form.replace("{}", "").count("}"):
        raise InvalidSetting(key, "must be a header such as 'X-Api-Key' or 'Authorization: Bearer {}'")
    return name, form


def _read_parameter(key: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip() or not value.isprintable():
        raise InvalidSetting(key, "must be a query parameter such as api_key")
    return value.strip()


def _build(key: str, fields: dict[str, Any]) -> TokenSettings:
    if "header" in fields and "query" in fields:
        raise InvalidSetting(key, "go into a header or into the query; leave one of them out")
    if "hosts" not in fields:
        raise InvalidSetting(key, f"need the hosts they may be sent to: {_EXAMPLE}")
    header, form = fields.get("header", (HEADER, FORM))
    return TokenSettings(
        origins=fields["hosts"],
        header=header,
        form=form,
        query=fields.get("query"),
        bucket=fields.get("bucket", ""),
        **fields.get("from", {"variable": VARIABLE}),
    )


# No error message shows the value, because it may be a token.
read_tokens = CompactSetting(
    kind=TokenSettings,
    fields={
        "from": _read_source,
        "hosts": _read_origins,
        "header": _read_header,
        "query": _read_parameter,
        "bucket": read_text,
    },
    example="'env:API_TOKENS hosts=api.example.com query=key', each option once",
    main="from",
    # A token may contain "=".
    name_of=lambda word: None if word.partition("=")[0] in _OPTIONS else "from",
    lists=("hosts",),
    build=_build,
).read
