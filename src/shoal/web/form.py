"""What a browser's form says."""

from urllib.parse import parse_qs

from starlette.requests import Request

from shoal.core.errors import InvalidInput

LARGEST = 256 << 10  # bytes
MOST_FIELDS = 5_000

Form = dict[str, list[str]]


async def read_form(request: Request) -> Form:
    """Read the fields of a form; raises InvalidInput when it is too large or no form."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > LARGEST:
            raise InvalidInput(
                f"The form is larger than {LARGEST:,} bytes. Tick fewer dead letters at a time."
            )
    try:
        return parse_qs(body.decode(), keep_blank_values=True, max_num_fields=MOST_FIELDS)
    except ValueError as error:
        raise InvalidInput(f"The form cannot be read: {error}") from error


def one_of(form: Form, name: str) -> str:
    """Return a field's value, empty if it is not there."""
    return form.get(name, [""])[0]
