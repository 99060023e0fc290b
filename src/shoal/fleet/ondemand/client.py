"""HTTP client for listening workers; distinguishes a refused call from a worker lost with its task."""

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
import wreq
from wreq import exceptions as wreq_errors

from shoal.core.model import SECOND
from shoal.worker.ipc.calls import (
    NONCE,
    SIGNATURE,
    BadSignature,
    CallRequest,
    CallResult,
    ListenerHealth,
    ListenerRecord,
    Signer,
    encode,
    read_health,
    read_result,
)

T = TypeVar("T")
CLIENT_ERRORS = tuple(getattr(wreq_errors, name) for name in wreq_errors.__all__)
MAX_BYTES = 64 * 1024 * 1024  # of a response
CONNECT_TIMEOUT = 2 * SECOND
IDLE_TIMEOUT = 30 * SECOND


class CallNotAccepted(Exception):
    """The worker did not accept the task: it may be sent to another worker unchanged."""


class CallLost(Exception):
    """It is unknown what the worker did with the task."""


class CallClient:
    """Sends signed requests to workers."""

    def __init__(self, signer: Signer) -> None:
        self._signer = signer
        self._client = wreq.Client(
            runtime=wreq.Runtime(workers=1),
            redirect=wreq.redirect.Policy.none(),
            connect_timeout=CONNECT_TIMEOUT,
            pool_idle_timeout=IDLE_TIMEOUT,
            no_proxy=True,
            http1_only=True,
        )

    async def health(self, worker: ListenerRecord) -> ListenerHealth:
        """Return a worker's health; raises CallNotAccepted or CallLost if it does not respond."""
        status, body = await self._send("GET", worker, "health", b"")
        if status != 200:
            raise CallNotAccepted(f"it responded with status {status}")
        return _read(read_health, body)

    async def call(self, worker: ListenerRecord, call: CallRequest) -> CallResult:
        """Have a worker process a task, and return the result."""
        status, body = await self._send("POST", worker, "call", encode(call))
        if status != 200:
            raise CallNotAccepted(f"it responded with status {status}")
        return _read(read_result, body)

    async def _send(self, method: str, worker: ListenerRecord, verb: str, body: bytes) -> tuple[int, bytes]:
        path = f"/{worker.worker_id}/{verb}"
        fields = self._signer.sign_request(method, path, body, time.time())
        url = worker.address.rstrip("/") + path
        try:
            if method == "GET":
                response = await self._client.get(url, headers=fields)
            else:
                response = await self._client.post(url, headers=fields, body=body)
            return await self._read_response(response, fields[NONCE])
        except (
            wreq_errors.ConnectionError,
            wreq_errors.ProxyConnectionError,
            wreq_errors.BuilderError,
        ) as error:
            raise CallNotAccepted("it could not be connected") from error
        except CLIENT_ERRORS as error:
            raise CallLost("the connection broke") from error

    async def _read_response(self, response: wreq.Response, nonce: str) -> tuple[int, bytes]:
        status = response.status.as_int()
        if response.content_length is None or response.content_length > MAX_BYTES:
            raise CallLost("its response is too large")
        body = bytes(await response.bytes())
        signature = response.headers.get(SIGNATURE)
        try:
            self._signer.verify_response(nonce, status, body, str(signature or b"", "latin-1"))
        except BadSignature as error:
            if status == 401:
                raise CallNotAccepted(
                    f"it refused the call: {body[:200].decode(errors='replace')}"
                ) from error
            raise CallLost(str(error)) from error
        return status, body


def _read(read: Callable[[bytes], T], body: bytes) -> T:
    try:
        return read(body)
    except msgspec.DecodeError as error:
        raise CallLost("its response cannot be read") from error
