"""Secrets that are told apart, and the search for them in everything that was written."""

import gzip
import secrets
from base64 import b64encode, urlsafe_b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import quote


class Canaries(dict[str, str]):
    """Random secrets by name, made when they are first spoken of."""

    def __missing__(self, name: str) -> str:
        self[name] = secrets.token_hex(10)
        return self[name]

    def hits(self, written: Mapping[str, bytes], allowed: Iterable[str] = ()) -> list[str]:
        """Return which of them were written, and where: `name in place`."""
        spelled = {name: set(spellings(value)) for name, value in self.items() if name not in allowed}
        return [
            f"{name} in {place}"
            for place, text in written.items()
            for name, forms in spelled.items()
            if any(form in text for form in forms)
        ]


def spellings(secret: str) -> Iterator[bytes]:
    """Yield what a secret looks like: as it is, in a URL, in hex, in base64 anywhere, in two-byte text."""
    raw = secret.encode()
    yield from (raw, raw.upper(), quote(secret, safe="").encode(), raw.hex().encode())
    yield secret.encode("utf-16-le")
    yield "".join(f"%{byte:02x}" for byte in raw).encode()
    for before in range(3):
        for encode in (b64encode, urlsafe_b64encode):
            text = encode(b"?" * before + raw)
            # The first and the last signs depend on what stands beside it.
            yield text[4 if before else 0 : -4]


def files(folder: Path, but: Iterable[Path] = ()) -> dict[str, bytes]:
    """Return what is in every file of a folder, unpacked, except those that a test wrote itself."""
    found = {}
    for path in sorted(set(folder.rglob("*")) - set(but)):
        if path.is_file():
            data = path.read_bytes()
            found[str(path.relative_to(folder))] = gzip.decompress(data) if path.suffix == ".gz" else data
    return found
