"""Encrypted connections to a queue's server: the files that its address names, and what can go wrong."""

import ssl
from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.parse import parse_qsl

from shoal.core.errors import InvalidSetting

NOT_TRUSTED = "its certificate cannot be verified"

# By OpenSSL's name of the error, the errors of a handshake that another attempt does not change.
_PROBLEMS = {
    "CERTIFICATE_VERIFY_FAILED": NOT_TRUSTED,
    "CERTIFICATE_REQUIRED": "it requires a client certificate",
    "HANDSHAKE_FAILURE": "it accepts none of the client's certificates or ciphers",
    "UNKNOWN_CA": "it does not know the authority of the client certificate",
    "BAD_CERTIFICATE": "it rejects the client certificate",
    "UNSUPPORTED_CERTIFICATE": "it rejects the client certificate",
    "CERTIFICATE_UNKNOWN": "it rejects the client certificate",
    "CERTIFICATE_EXPIRED": "the client certificate has expired",
    "WRONG_VERSION_NUMBER": "it does not use TLS on this port",
    "KEY_VALUES_MISMATCH": "the client's key does not belong to its certificate",
    "NO_CERTIFICATE_OR_CRL_FOUND": "the file of its authority contains no certificate",
    "NO_START_LINE": "a certificate or key file is not in PEM format",
}
_FILE_PROBLEM = "a certificate or key file is not in PEM format, or is protected by another password"


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


def handshake_problem(error: BaseException) -> str | None:
    """Return why no attempt to connect can succeed with this address; None for other errors."""
    for cause in _causes(error):
        # A driver may have kept nothing of the error but its text.
        text = str(cause)
        for name, problem in _PROBLEMS.items():
            if f"{name}]" in text:
                detail = text.rpartition("certificate verify failed: ")[2].partition(" (_ssl")[0].rstrip(". ")
                return f"{problem}: {detail}" if problem is NOT_TRUSTED and detail != text else problem
        if isinstance(cause, ssl.SSLError) and "[SSL] PEM lib" in text:
            return _FILE_PROBLEM
    return None


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an error and what caused it; the errors of aiormq may be causes of each other."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        yield cause
        seen.add(id(cause))
        cause = cause.__cause__ or cause.__context__
