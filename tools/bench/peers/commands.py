"""The command lines of the peers' workers, as their documentation has them."""

from collections.abc import Callable, Sequence

from tools.bench.peers.order import Order

Command = Sequence[str]

_CALM_CELERY = ("--without-gossip", "--without-mingle", "--without-heartbeat", "--loglevel", "warning")
_CALM_TASKIQ = (
    "--log-level",
    "WARNING",
    "--shutdown-timeout",
    "1",
    "--ack-type",
    "when_executed",
    "--no-parse",
)


def commands(order: Order) -> list[Command]:
    """Return what is started to do the jobs, each with the peers' own Python in front of it."""
    return COMMANDS[order.peer](order)


def _celery(order: Order) -> list[Command]:
    # A solo node does its jobs itself; any other has as many processes for them as it is told.
    nodes = order.workers if order.choice["pool"] == "solo" else 1
    pool = ("--pool", order.choice["pool"], "--concurrency", str(order.workers // nodes))
    app = ("-m", "celery", "--app", "tools.bench.peers.celery_jobs", "worker")
    return [(*app, *pool, *_CALM_CELERY, "--hostname", f"node{node}@%h") for node in range(nodes)]


def _dramatiq(order: Order) -> list[Command]:
    size = ("--processes", str(order.workers), "--threads", str(order.choice["threads"]))
    start = ("-m", "dramatiq", "tools.bench.peers.dramatiq_jobs")
    return [(*start, *size, "--worker-shutdown-timeout", "5000")]


def _arq(order: Order) -> list[Command]:
    jobs = "tools.bench.peers.arq_jobs"
    command = ("-m", "arq", f"{jobs}.WorkerSettings", "--custom-log-dict", f"{jobs}.LOGGING")
    return [command] * order.workers


def _taskiq(order: Order) -> list[Command]:
    size = ("--workers", str(order.workers), "--max-async-tasks", str(order.choice["at_once"]))
    start = ("-m", "taskiq", "worker", "tools.bench.peers.taskiq_jobs:broker")
    return [(*start, *size, "--max-prefetch", str(order.choice["at_once"]), *_CALM_TASKIQ)]


def _huey(order: Order) -> list[Command]:
    size = ("--workers", str(order.workers), "--worker-type", "process")
    start = ("-m", "huey.bin.huey_consumer", "tools.bench.peers.huey_jobs.huey")
    return [(*start, *size, "--quiet", "--no-periodic")]


COMMANDS: dict[str, Callable[[Order], list[Command]]] = {
    "arq": _arq,
    "celery": _celery,
    "dramatiq": _dramatiq,
    "huey": _huey,
    "taskiq": _taskiq,
}
