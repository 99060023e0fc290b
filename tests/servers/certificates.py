"""Certificates of a private authority, for servers and their clients."""

import shutil
import tempfile
from pathlib import Path
from typing import Self

import trustme

from tests.servers.process import unprivileged_user


class Certificates:
    """An authority of our own, with a certificate for 127.0.0.1 and one for a client."""

    def __init__(self, client: str) -> None:
        # Not in a folder of pytest: a server that runs as another user could not read there.
        self._folder = Path(tempfile.mkdtemp(prefix="shoal-certificates-"))
        self._folder.chmod(0o755)
        ours = trustme.CA()
        self.authority = self._write("authority.pem", ours.cert_pem.bytes())
        self.certificate, self.key = self._issue("server", ours.issue_cert("127.0.0.1"))
        # Erlang accepts no certificate without an alternative name.
        client_made = ours.issue_cert(f"{client}.test", common_name=client)
        self.client_certificate, self.client_key = self._issue("client", client_made)
        self.other_authority = self._write("other.pem", trustme.CA().cert_pem.bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self._folder)

    def _issue(self, name: str, made: trustme.LeafCert) -> tuple[Path, Path]:
        chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
        return self._write(f"{name}.pem", chain), self._write(f"{name}.key", made.private_key_pem.bytes())

    def _write(self, name: str, text: bytes) -> Path:
        path = self._folder / name
        path.write_bytes(text)
        # Servers refuse a key that others may read, and run as somebody else when we are root.
        path.chmod(0o600 if path.suffix == ".key" else 0o644)
        if name.startswith("server") and (user := unprivileged_user()):
            shutil.chown(path, user)
        return path
