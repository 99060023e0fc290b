"""As much of PostgreSQL's protocol as the lossy proxy needs to know."""

from collections.abc import Iterator

SSL_REQUEST, GSS_REQUEST = 80877103, 80877104


class PostgresTalk:
    """Follows one connection: which statement is executed, and which answer belongs to it.

    A driver sends a statement's text once and then executes it by name, so the text is remembered.
    Every Query and every Sync is answered by one ReadyForQuery, after the commit if there was one.
    """

    def __init__(self) -> None:
        self._from_client = bytearray()
        self._from_server = bytearray()
        self._started = False
        self._one_byte_answers = 0
        self._statements: dict[bytes, bytes] = {}
        self._requests = 1  # the start-up is answered by a ReadyForQuery too
        self._ready = 0
        self._awaited: int | None = None

    def asked(self, data: bytes, marker: bytes | None) -> bool:
        """Follow the client's bytes; True when a statement that holds the marker is being executed."""
        self._from_client += data
        if not self._started:
            self._start_up()
        found = False
        for kind, body in _messages(self._from_client) if self._started else ():
            if kind == b"P":
                name, text = body.split(b"\0", 2)[:2]
                self._statements[name] = text
            if marker is not None and not found and marker in self._executed(kind, body):
                found = True
                self._awaited = self._requests + 1
            if kind in (b"Q", b"S"):
                self._requests += 1
        return found

    def answered(self, data: bytes) -> bool:
        """Follow the server's bytes; True when the marked statement has been answered in full."""
        self._from_server += data
        while self._one_byte_answers and self._from_server:
            del self._from_server[:1]
            self._one_byte_answers -= 1
        self._ready += sum(kind == b"Z" for kind, _ in _messages(self._from_server))
        return self._awaited is not None and self._ready >= self._awaited

    def _start_up(self) -> None:
        """Take the messages before the first that has a kind: requests for encryption, then the start-up."""
        while len(self._from_client) >= 8 and not self._started:
            length = int.from_bytes(self._from_client[:4], "big")
            if len(self._from_client) < length:
                return
            code = int.from_bytes(self._from_client[4:8], "big")
            if code in (SSL_REQUEST, GSS_REQUEST):
                self._one_byte_answers += 1
            else:
                self._started = True
            del self._from_client[:length]

    def _executed(self, kind: bytes, body: bytes) -> bytes:
        """Return the text of the statement that a message executes."""
        if kind == b"Q":
            return body
        if kind == b"B":
            return self._statements.get(body.split(b"\0", 2)[1], b"")
        return b""


def _messages(buffer: bytearray) -> Iterator[tuple[bytes, bytes]]:
    """Take the complete messages off the buffer: their kind and their body."""
    start = 0
    try:
        while len(buffer) >= start + 5:
            end = start + 1 + int.from_bytes(buffer[start + 1 : start + 5], "big")
            if len(buffer) < end:
                return
            yield bytes(buffer[start : start + 1]), bytes(buffer[start + 5 : end])
            start = end
    finally:
        del buffer[:start]
