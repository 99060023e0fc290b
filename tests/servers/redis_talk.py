"""As much of Redis's protocol as the lossy proxy needs to know."""

from typing import Any

import hiredis


class RedisTalk:
    """Follows one connection: which command is sent, and which answer belongs to it.

    Requests are written like answers, and every request is answered once, in order.
    """

    def __init__(self) -> None:
        self._from_client, self._from_server = hiredis.Reader(), hiredis.Reader()
        self._requests = self._answers = 0
        self._awaited: int | None = None

    def asked(self, data: bytes, marker: bytes | None) -> bool:
        """Follow the client's bytes; True when a command that has the marker among its words is sent."""
        found = False
        for words in _messages(self._from_client, data):
            self._requests += 1
            if marker is not None and not found and marker in words:
                found = True
                self._awaited = self._requests
        return found

    def answered(self, data: bytes) -> bool:
        """Follow the server's bytes; True when the marked command has been answered in full."""
        self._answers += len(_messages(self._from_server, data))
        return self._awaited is not None and self._answers >= self._awaited


def _messages(reader: Any, data: bytes) -> list[Any]:
    reader.feed(data)
    found = []
    while (message := reader.gets()) is not False:
        found.append(message)
    return found
