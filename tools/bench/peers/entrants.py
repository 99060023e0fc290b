"""Who takes part on which server, and the bar that our rate over theirs is held to."""

from collections.abc import Sequence

from tools.bench.peers.entrant import Choice, Entrant, Foreigner, Neighbour
from tools.bench.report import at_least

AHEAD = at_least(1)

_LOOPS: Sequence[Choice] = ({"loops": 1}, {"loops": 3})
_CELERY: Sequence[Choice] = tuple({"pool": pool, "prefetch": 100} for pool in ("prefork", "solo"))
_DRAMATIQ: Sequence[Choice] = tuple({"threads": 8, "prefetch": most} for most in (200, 1_000))


def _ours(guess: float) -> Entrant:
    return Neighbour("shoal", "tools.bench.peers.shoal", guess, _LOOPS)


POSTGRES: Sequence[Entrant] = (
    _ours(8_000),
    Neighbour(
        "pgqueuer",
        "tools.bench.peers.pgqueuer",
        3_000,
        (
            {"driver": "connection", "managers": 1},
            {"driver": "pool", "managers": 1},
            {"driver": "connection", "managers": 5},
        ),
        at_least(2.5),
    ),
    Neighbour(
        "procrastinate",
        "tools.bench.peers.procrastinate",
        400,
        tuple({"concurrency": concurrency} for concurrency in (10, 1, 30)),
        at_least(10),
    ),
    Neighbour("naive SKIP LOCKED loop", "tools.bench.peers.naive", 1_500),
)
REDIS: Sequence[Entrant] = (
    _ours(15_000),
    Foreigner("celery", "celery", 500, _CELERY, AHEAD),
    Foreigner("dramatiq", "dramatiq", 2_500, _DRAMATIQ, AHEAD),
    Foreigner("arq", "arq", 700, tuple({"max_jobs": most} for most in (100, 10)), AHEAD, "bench-queue-arq"),
    Foreigner("taskiq", "taskiq", 1_000, tuple({"at_once": most} for most in (100, 1_000)), AHEAD),
    Foreigner("huey", "huey", 3_000, ({},), AHEAD),
)
RABBITMQ: Sequence[Entrant] = (
    _ours(6_000),
    Foreigner("celery", "celery", 500, _CELERY, AHEAD),
    Foreigner("dramatiq", "dramatiq", 2_500, _DRAMATIQ, AHEAD),
    Foreigner(
        "taskiq",
        "taskiq",
        1_000,
        tuple({"kind": kind, "at_once": 100} for kind in ("quorum", "classic")),
        AHEAD,
    ),
)


def entrants(store: str) -> Sequence[Entrant]:
    """Return who takes part on a server, ourselves first."""
    return {"postgres": POSTGRES, "redis": REDIS, "rabbitmq": RABBITMQ}[store]
