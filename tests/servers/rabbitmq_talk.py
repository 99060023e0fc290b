"""As much of AMQP 0-9-1 as the lossy proxy needs to know."""

import struct
from collections.abc import Iterator

HEADER = b"AMQP"
METHOD, CONTENT_HEADER, BODY = 1, 2, 3
Method = tuple[int, int]

# A request, and the answers that may come to it. What is published is answered by its confirmation.
ANSWERS: dict[bytes, tuple[Method, list[Method]]] = {
    b"declare": ((50, 10), [(50, 11)]),
    b"delete": ((50, 40), [(50, 41)]),
    b"publish": ((60, 40), [(60, 80)]),
    b"get": ((60, 70), [(60, 71), (60, 72)]),
}
GET_OK: Method = (60, 71)


class Frames:
    """Cuts one direction's bytes into frames."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[tuple[int, bytes]]:
        """Yield the type and the payload of each frame that is complete."""
        self._rest += data
        if self._rest.startswith(HEADER):
            self._rest = self._rest[8:]
        while len(self._rest) >= 7:
            kind, _, size = struct.unpack(">BHI", self._rest[:7])
            if len(self._rest) < 8 + size:
                return
            yield kind, self._rest[7 : 7 + size]
            self._rest = self._rest[8 + size :]


class RabbitTalk:
    """Follows one connection: whether the marked request is sent, and when its answer is complete."""

    def __init__(self) -> None:
        self._from_client, self._from_server = Frames(), Frames()
        self._answers: list[Method] = []
        self._answered = False
        self._left = 0  # bytes of a message that is still coming

    def asked(self, data: bytes, marker: bytes | None) -> bool:
        """Follow the client's bytes; True when the marked request is sent."""
        sent = [_method(payload) for kind, payload in self._from_client.feed(data) if kind == METHOD]
        if marker is None or ANSWERS[marker][0] not in sent:
            return False
        self._answers = ANSWERS[marker][1]
        return True

    def answered(self, data: bytes) -> bool:
        """Follow the server's bytes; True when the marked request has been answered in full."""
        for kind, payload in self._from_server.feed(data):
            if kind == METHOD and _method(payload) in self._answers:
                self._answered = True
                self._left = 1 if _method(payload) == GET_OK else 0
            elif kind == CONTENT_HEADER and self._left:
                self._left = struct.unpack(">Q", payload[4:12])[0]
            elif kind == BODY and self._left:
                self._left -= len(payload)
        return self._answered and self._left == 0


def _method(payload: bytes) -> Method:
    first, second = struct.unpack(">HH", payload[:4])
    return first, second
