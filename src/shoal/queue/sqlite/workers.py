"""Workers that say they are alive, and those that are known to be dead."""

from shoal.queue.sqlite import runs
from shoal.queue.sqlite.endings import Endings, Held
from shoal.queue.sqlite.store import Store


def beat(store: Store, worker_id: str, run_id: str, state: str, info: str) -> None:
    """Note that a worker is alive, and what it does; raises UnknownRun."""
    run = runs.known(store, run_id).no
    store.tell("worker_beat", run=run, worker_id=worker_id, state=state, info=info, now=store.now())


def abandon(store: Store, worker_id: str) -> int:
    """Release every lease of a worker, and return how many there were."""
    abandoned = store.read("lease_of_worker", list[Held], worker_id=worker_id)
    if abandoned:
        endings = Endings(store)
        for held in abandoned:
            endings.release(held)
        endings.write()
    return len(abandoned)
