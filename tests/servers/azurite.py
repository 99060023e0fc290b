"""A private Azurite, Microsoft's emulator of Azure storage, with the account that it is made with."""

import base64
import hashlib
import hmac
import socket
import urllib.request
from email.utils import formatdate
from typing import Self

from tests.servers.process import ServerProcess, find_program

ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="  # documented
VERSION = "2021-08-06"


class AzuriteServer(ServerProcess):
    """The blob service alone, with everything in memory."""

    name = "azurite"

    def __init__(self) -> None:
        program = find_program("azurite-blob", "azurite")
        super().__init__()
        self.url = f"http://127.0.0.1:{self.port}/{ACCOUNT}"
        address = ["--blobHost", "127.0.0.1", "--blobPort", str(self.port)]
        # The library may name a version of the protocol that is newer than the emulator.
        options = ["--inMemoryPersistence", "--disableTelemetry", "--skipApiVersionCheck", "--silent"]
        self._spawn([program, *address, *options], self._is_ready)

    def create_container(self, name: str) -> None:
        """Create a container, by a request that is signed with the key of the account."""
        headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
        fields = "".join(f"{field}:{value}\n" for field, value in headers.items())
        signed = f"PUT\n{11 * chr(10)}{fields}/{ACCOUNT}/{ACCOUNT}/{name}\nrestype:container"
        digest = hmac.new(base64.b64decode(KEY), signed.encode(), hashlib.sha256).digest()
        headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
        request = urllib.request.Request(
            f"{self.url}/{name}?restype=container", method="PUT", headers=headers
        )
        urllib.request.urlopen(request).close()

    def _is_ready(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
