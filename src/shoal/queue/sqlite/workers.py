"""Workers that say they are alive."""

from shoal.queue.sqlite import runs
from shoal.queue.sqlite.store import Store


def beat(store: Store, worker_id: str, run_id: str, state: str, info: str) -> None:
    """Note that a worker is alive, and what it does; raises UnknownRun."""
    run = runs.known(store, run_id).no
    store.tell("worker_beat", run=run, worker_id=worker_id, state=state, info=info, now=store.now())
