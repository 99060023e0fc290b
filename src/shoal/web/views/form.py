"""Reading HTML forms."""

from collections.abc import Mapping
from typing import Any, TypeVar
from urllib.parse import parse_qs

import msgspec
from pydantic import BaseModel, ValidationError
from starlette.requests import Request

from shoal.core.errors import InvalidInput
from shoal.core.values import read_pair, read_typed

MAX_FIELDS = 5_000
MAX_PAYLOAD = 32 << 10  # bytes of a payload that a form shows

Form = dict[str, list[str]]
Body = TypeVar("Body", bound=BaseModel)


async def read_form(request: Request) -> Form:
    """Read the fields of a form, whose size the middleware limits; raises InvalidInput if it is malformed."""
    try:
        body = (await request.body()).decode()
        return parse_qs(body, keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidInput(f"The form cannot be read: {error}") from error


def form_field(form: Form, name: str) -> str:
    """Return the value of a field, empty if it is missing."""
    return form.get(name, [""])[0]


def body_of(kind: type[Body], **fields: Any) -> Body:
    """Return the body of a request with these fields of a form; raises InvalidInput."""
    try:
        return kind(**fields)
    except ValidationError as error:
        first = error.errors()[0]
        raise InvalidInput(f"{first['loc'][0]}: {first['msg']}") from error


def read_settings(text: str) -> dict[str, Any]:
    """Read NAME=VALUE from each line; a value is parsed as JSON if possible, else taken as text."""
    lines = filter(None, map(str.strip, text.splitlines()))
    pairs = (read_pair("settings", line, "rate=5/s") for line in lines)
    return {name: read_typed(value) for name, value in pairs}


def payload_text(payload: Mapping[str, Any]) -> str | None:
    """Return a payload as the text of a form field; None if it is too large for one."""
    text = msgspec.json.format(msgspec.json.encode(dict(payload)), indent=2).decode()
    return text if len(text) <= MAX_PAYLOAD else None


def read_payload(text: str) -> dict[str, Any]:
    """Read the payload from a form field; raises InvalidInput."""
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidInput(f"The payload is not a JSON object: {error}. Nothing was changed.") from error
