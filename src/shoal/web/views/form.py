"""Reading HTML forms."""

from urllib.parse import parse_qs

from starlette.requests import Request

from shoal.core.errors import InvalidInput

MAX_BYTES = 256 << 10  # bytes
MAX_FIELDS = 5_000

Form = dict[str, list[str]]


async def read_form(request: Request) -> Form:
    """Read the fields of a form; raises InvalidInput if it is too large or malformed."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > MAX_BYTES:
            raise InvalidInput(
                f"The form is larger than {MAX_BYTES:,} bytes. Select fewer dead letters at a time."
            )
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MAX_FIELDS)
    except ValueError as error:
        raise InvalidInput(f"The form cannot be read: {error}") from error


def form_field(form: Form, name: str) -> str:
    """Return the value of a field, empty if it is missing."""
    return form.get(name, [""])[0]
