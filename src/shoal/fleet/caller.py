"""Calling a listening worker; one that did not take a task is told from one that was lost with it."""

import time
from collections.abc import Callable
from typing import TypeVar

import msgspec
import wreq
from wreq import exceptions as broken

from shoal.core.model import SECOND
from shoal.worker.calls import (
    NONCE,
    SEAL,
    Answer,
    Call,
    Health,
    Listed,
    Seal,
    Unsealed,
    encode,
    read_answer,
    read_health,
)

T = TypeVar("T")
BROKEN = tuple(getattr(broken, name) for name in broken.__all__)
MOST_BYTES = 64 * 1024 * 1024  # of an answer
CONNECT_TIMEOUT = 2 * SECOND
IDLE_TIMEOUT = 30 * SECOND


class NotTaken(Exception):
    """The worker did not take the task: it may be handed to another as it is."""


class Lost(Exception):
    """Nobody knows what the worker did with the task."""


class Caller:
    """Asks workers, under a seal."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal
        self._client = wreq.Client(
            runtime=wreq.Runtime(workers=1),
            redirect=wreq.redirect.Policy.none(),
            connect_timeout=CONNECT_TIMEOUT,
            pool_idle_timeout=IDLE_TIMEOUT,
            no_proxy=True,
            http1_only=True,
        )

    async def health(self, worker: Listed) -> Health:
        """Return how a worker is; raises NotTaken or Lost when it does not say."""
        status, body = await self._ask("GET", worker, "health", b"")
        if status != 200:
            raise NotTaken(f"it answered with status {status}")
        return _read(read_health, body)

    async def call(self, worker: Listed, call: Call) -> Answer:
        """Have a task handled, and return what became of it."""
        status, body = await self._ask("POST", worker, "call", encode(call))
        if status != 200:
            raise NotTaken(f"it answered with status {status}")
        return _read(read_answer, body)

    async def _ask(self, method: str, worker: Listed, verb: str, body: bytes) -> tuple[int, bytes]:
        path = f"/{worker.worker_id}/{verb}"
        fields = self._seal.question(method, path, body, time.time())
        url = worker.address.rstrip("/") + path
        try:
            if method == "GET":
                answer = await self._client.get(url, headers=fields)
            else:
                answer = await self._client.post(url, headers=fields, body=body)
            return await self._heard(answer, fields[NONCE])
        except (broken.ConnectionError, broken.ProxyConnectionError, broken.BuilderError) as error:
            raise NotTaken("no connection could be made") from error
        except BROKEN as error:
            raise Lost("the connection broke") from error

    async def _heard(self, answer: wreq.Response, nonce: str) -> tuple[int, bytes]:
        status = answer.status.as_int()
        if answer.content_length is None or answer.content_length > MOST_BYTES:
            raise Lost("its answer is too large")
        body = bytes(await answer.bytes())
        seal = answer.headers.get(SEAL)
        try:
            self._seal.check_answer(nonce, status, body, str(seal or b"", "latin-1"))
        except Unsealed as error:
            if status == 401:
                raise NotTaken(f"it refused the call: {body[:200].decode(errors='replace')}") from error
            raise Lost(str(error)) from error
        return status, body


def _read(read: Callable[[bytes], T], body: bytes) -> T:
    try:
        return read(body)
    except msgspec.DecodeError as error:
        raise Lost("its answer cannot be read") from error
