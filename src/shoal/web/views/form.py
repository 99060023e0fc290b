"""Reading HTML forms."""

from typing import Any
from urllib.parse import parse_qs

import msgspec
from starlette.requests import Request

from shoal.core.errors import InvalidInput, InvalidSetting, shorten

MAX_BYTES = 256 << 10  # bytes
MAX_FIELDS = 5_000

Form = dict[str, list[str]]


async def read_form(request: Request, max_bytes: int = MAX_BYTES) -> Form:
    """Read the fields of a form; raises InvalidInput if it is too large or malformed."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > max_bytes:
            raise InvalidInput(f"The form is larger than {max_bytes:,} bytes. Send less at a time.")
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidInput(f"The form cannot be read: {error}") from error


def form_field(form: Form, name: str) -> str:
    """Return the value of a field, empty if it is missing."""
    return form.get(name, [""])[0]


def read_settings(text: str) -> dict[str, Any]:
    """Read KEY=VALUE from each line; a value is parsed as JSON if possible, else taken as text."""
    settings: dict[str, Any] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise InvalidSetting("settings", f"take KEY=VALUE such as rate=5/s, not {shorten(line)!r}")
        try:
            settings[key] = msgspec.json.decode(value)
        except msgspec.DecodeError:
            settings[key] = value
    return settings
