"""What a caller and a listening worker say to each other, and the seal by which they know each other."""

import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

import msgspec

from shoal.core.model import MINUTE, Lease

WINDOW = MINUTE  # how far the clocks of two machines may be apart
MOST_NONCES = 100_000
TIME, NONCE, BODY, SEAL = "x-shoal-time", "x-shoal-nonce", "x-shoal-body", "x-shoal-seal"
TOPIC = "listening"  # where listening workers are noted, with the name of their scraper


class Listening(msgspec.Struct, kw_only=True, frozen=True):
    """Where a worker is to listen: at the first port that is free, from `port` on."""

    host: str
    port: int = 0  # any
    ports: int = 1
    announce: str = "http://{host}:{port}"  # where callers reach it


class Listed(msgspec.Struct, kw_only=True, frozen=True):
    """A listening worker as it is noted in the queue."""

    worker_id: str
    address: str
    run_id: str
    in_hand: int = 0


class Health(msgspec.Struct, kw_only=True, frozen=True):
    """What a worker says when it is asked how it is."""

    in_hand: int
    stopping: bool = False


class Call(msgspec.Struct, kw_only=True, frozen=True):
    """A claimed task that a worker is to handle now."""

    lease: Lease
    claimed_at: datetime | None = None


class Link(msgspec.Struct, kw_only=True, frozen=True):
    """A task that a step would have followed."""

    url: str | None
    step: str


class Answer(msgspec.Struct, kw_only=True, frozen=True):
    """What became of a call, once the queue has it."""

    fate: str  # "done", "retry", "dead", "released", "stale"
    items: list[Any] = []
    follow: list[Link] = []
    rejected: int = 0
    error: str = ""


encode = msgspec.json.Encoder(enc_hook=dict).encode  # payloads are read-only views of a dict
read_call = msgspec.json.Decoder(Call).decode
read_answer = msgspec.json.Decoder(Answer).decode
read_health = msgspec.json.Decoder(Health).decode
read_listed = msgspec.json.Decoder(Listed).decode


def topic_of(scraper: str) -> str:
    """Return where the workers that listen for a scraper are noted."""
    return f"{TOPIC} {scraper}"


class Unsealed(Exception):
    """Who says this does not have the secret, or says it too late, or for the second time."""


class Seal:
    """Signs what is said with a secret that both sides have, and checks what is heard."""

    def __init__(self, secret: bytes, window: timedelta = WINDOW) -> None:
        self._secret, self._window = secret, window.total_seconds()
        self._heard: dict[str, float] = {}

    def question(self, method: str, path: str, body: bytes, now: float) -> dict[str, str]:
        """Return the header fields that go with a question."""
        fields = {TIME: f"{now:.3f}", NONCE: secrets.token_hex(16), BODY: sha256(body).hexdigest()}
        return fields | {SEAL: self._sign(method, path, fields[TIME], fields[NONCE], fields[BODY])}

    def admit(self, method: str, path: str, fields: Mapping[str, str], now: float) -> None:
        """Check a question before its body is read, and never admit it again; raises Unsealed."""
        time, nonce, body, seal = (fields.get(name, "") for name in (TIME, NONCE, BODY, SEAL))
        if not _is_time(time) or abs(float(time) - now) > self._window:
            raise Unsealed("the clocks of caller and worker are too far apart")
        if not _same(self._sign(method, path, time, nonce, body), seal):
            raise Unsealed("its seal was made with another secret")
        self._forget(now)
        if nonce in self._heard or len(self._heard) >= MOST_NONCES:
            raise Unsealed("it was said before")
        self._heard[nonce] = now

    def check_body(self, fields: Mapping[str, str], body: bytes) -> None:
        """Check that this is the body of a question that was admitted; raises Unsealed."""
        if not _same(sha256(body).hexdigest(), fields[BODY]):
            raise Unsealed("its body is another one")

    def answer(self, nonce: str, status: int, body: bytes) -> str:
        """Return the seal of an answer; it holds for the question with this nonce alone."""
        return self._sign("answer", str(status), nonce, sha256(body).hexdigest())

    def check_answer(self, nonce: str, status: int, body: bytes, seal: str) -> None:
        """Check an answer; raises Unsealed."""
        if not _same(self.answer(nonce, status, body), seal):
            raise Unsealed("the answer's seal was made with another secret")

    def _sign(self, *words: str) -> str:
        # A digest of each, so that no word can borrow letters from its neighbour.
        digests = b"".join(sha256(word.encode()).digest() for word in words)
        return hmac.new(self._secret, digests, sha256).hexdigest()

    def _forget(self, now: float) -> None:
        # A question may come from a clock that is a window ahead, and be repeated until that is over.
        while self._heard and (oldest := next(iter(self._heard))):
            if self._heard[oldest] + 2 * self._window >= now:
                return
            del self._heard[oldest]


def _is_time(text: str) -> bool:
    return len(text) < 20 and text.isascii() and text.replace(".", "", 1).isdecimal()


def _same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
