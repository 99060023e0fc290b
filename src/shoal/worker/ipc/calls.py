"""Messages between a caller and a listening worker, and the HMAC signature by which they authenticate."""

import hmac
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from hashlib import sha256
from typing import Any

import msgspec

from shoal.core.model import MINUTE, SEED_STEP, Lease

WINDOW = MINUTE  # maximum difference between the clocks of two machines
MAX_NONCES = 100_000
# Names of header fields
TIME, NONCE, BODY_HASH, SIGNATURE = "x-shoal-time", "x-shoal-nonce", "x-shoal-body", "x-shoal-seal"
TOPIC = "listening"  # note topic of listening workers, followed by the name of their scraper


class Listening(msgspec.Struct, kw_only=True, frozen=True):
    """Where a worker listens: at the first free port, from `port` on."""

    host: str
    port: int = 0  # any
    ports: int = 1
    announce: str = "http://{host}:{port}"  # the address for callers


class ListenerRecord(msgspec.Struct, kw_only=True, frozen=True):
    """A listening worker as it is recorded in the queue."""

    worker_id: str
    address: str
    run_id: str
    in_hand: int = 0
    seed_step: str = SEED_STEP  # the step of a call that names none
    once: tuple[str, ...] = ()  # steps whose tasks are attempted once at most


class ListenerHealth(msgspec.Struct, kw_only=True, frozen=True):
    """A worker's response to a health check."""

    in_hand: int
    stopping: bool = False


class CallRequest(msgspec.Struct, kw_only=True, frozen=True):
    """A claimed task for a worker to handle now."""

    lease: Lease
    claimed_at: datetime | None = None


class FollowedLink(msgspec.Struct, kw_only=True, frozen=True):
    """A task that a step would have followed."""

    url: str | None
    step: str


class CallFate(StrEnum):
    """What became of the task of a call."""

    DONE = "done"
    RETRY = "retry"
    DEAD = "dead"
    RELEASED = "released"
    STALE = "stale"


class CallResult(msgspec.Struct, kw_only=True, frozen=True):
    """The result of a call, once the queue has settled it."""

    fate: CallFate
    items: list[Any] = []
    follow: list[FollowedLink] = []
    rejected: int = 0
    error: str = ""
    traceback: str = ""


encode = msgspec.json.Encoder(enc_hook=dict).encode  # payloads are read-only views of a dict
read_call = msgspec.json.Decoder(CallRequest).decode
read_result = msgspec.json.Decoder(CallResult).decode
read_health = msgspec.json.Decoder(ListenerHealth).decode
read_listener = msgspec.json.Decoder(ListenerRecord).decode


def topic_of(scraper: str) -> str:
    """Return the note topic of the workers that listen for a scraper."""
    return f"{TOPIC} {scraper}"


class BadSignature(Exception):
    """A message has no valid signature, or it is too old, or a repeated call."""


class Signer:
    """Signs messages with a secret that both sides share, and verifies received ones."""

    def __init__(self, secret: bytes, window: timedelta = WINDOW) -> None:
        self._secret, self._window = secret, window.total_seconds()
        self._seen: dict[str, float] = {}

    def sign_request(self, method: str, path: str, body: bytes, now: float) -> dict[str, str]:
        """Return the header fields of a signed request."""
        fields = {TIME: f"{now:.3f}", NONCE: secrets.token_hex(16), BODY_HASH: sha256(body).hexdigest()}
        return fields | {SIGNATURE: self._sign(method, path, fields[TIME], fields[NONCE], fields[BODY_HASH])}

    def verify_request(self, method: str, path: str, fields: Mapping[str, str], now: float) -> None:
        """Verify a request before its body is read, and never accept it again; raises BadSignature."""
        time, nonce, body, signature = (fields.get(name, "") for name in (TIME, NONCE, BODY_HASH, SIGNATURE))
        if not _is_time(time) or abs(float(time) - now) > self._window:
            raise BadSignature("the clocks of caller and worker are too far apart")
        if not _is_same(self._sign(method, path, time, nonce, body), signature):
            raise BadSignature("its signature was made with another secret")
        self._forget_old(now)
        if nonce in self._seen or len(self._seen) >= MAX_NONCES:
            raise BadSignature("its nonce was used before")
        self._seen[nonce] = now

    def verify_body(self, fields: Mapping[str, str], body: bytes) -> None:
        """Verify the body of a request whose header was verified; raises BadSignature."""
        if not _is_same(sha256(body).hexdigest(), fields[BODY_HASH]):
            raise BadSignature("its body does not match its signature")

    def sign_response(self, nonce: str, status: int, body: bytes) -> str:
        """Return the signature of a response; it is valid only for the request with this nonce."""
        return self._sign("answer", str(status), nonce, sha256(body).hexdigest())

    def verify_response(self, nonce: str, status: int, body: bytes, signature: str) -> None:
        """Verify a response; raises BadSignature."""
        if not _is_same(self.sign_response(nonce, status, body), signature):
            raise BadSignature("the response's signature was made with another secret")

    def _sign(self, *words: str) -> str:
        # A digest of each, so that no characters can move from one word to the next.
        digests = b"".join(sha256(word.encode()).digest() for word in words)
        return hmac.new(self._secret, digests, sha256).hexdigest()

    def _forget_old(self, now: float) -> None:
        # A request may come from a clock that is a window ahead, and can be repeated until that has passed.
        while self._seen and (oldest := next(iter(self._seen))):
            if self._seen[oldest] + 2 * self._window >= now:
                return
            del self._seen[oldest]


def _is_time(text: str) -> bool:
    return len(text) < 20 and text.isascii() and text.replace(".", "", 1).isdecimal()


def _is_same(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())
