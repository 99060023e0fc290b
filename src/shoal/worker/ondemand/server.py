"""The server of a listening worker, for callers that have the secret."""

import time
from collections.abc import Awaitable, Callable
from typing import Self

from shoal.worker.ipc.calls import NONCE, SIGNATURE, BadSignature, Listening, Signer
from shoal.worker.ipc.http_server import BadRequest, HttpReply, HttpRequest, SmallHttpServer

MAX_CONNECTIONS = 512
JSON = {"content-type": "application/json"}

Handler = Callable[[str, str, bytes], Awaitable[HttpReply]]


class CallServer:
    """Accepts signed requests while it is open, and signs the responses."""

    def __init__(self, listening: Listening, signer: Signer, handler: Handler) -> None:
        self._listening, self._signer, self._handler = listening, signer, handler
        first = listening.port
        ports = range(first, first + max(1, listening.ports if first else 1))
        self._server = SmallHttpServer(listening.host, ports, self._respond, max_connections=MAX_CONNECTIONS)

    @property
    def address(self) -> str:
        """The address for callers."""
        host, _, port = self._server.address.rpartition(":")
        return self._listening.announce.format(host=host, port=port)

    async def __aenter__(self) -> Self:
        await self._server.open("--at")
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self._server.close()

    async def _respond(self, request: HttpRequest) -> HttpReply:
        """Return the response; the client may send another request only if this one is signed."""
        method, path, fields, read_body = request
        if method not in ("GET", "POST"):
            raise BadRequest("Use GET or POST.")
        try:
            # Before the body: a caller without the secret must not make the worker read megabytes.
            self._signer.verify_request(method, path, fields, time.time())
            body = await read_body()
            self._signer.verify_body(fields, body)
        except BadSignature as error:
            return HttpReply(401, str(error).encode())
        reply = await self._handler(method, path, body)
        signature = self._signer.sign_response(fields[NONCE], reply.status, reply.body)
        return HttpReply(reply.status, reply.body, JSON | {SIGNATURE: signature}, keep_alive=True)
