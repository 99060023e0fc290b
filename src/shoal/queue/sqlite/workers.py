"""Workers that say they are alive, and those that are known to be dead."""

from collections.abc import Sequence

from shoal.queue.sqlite import runs
from shoal.queue.sqlite.endings import Endings, Held
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json


def beat(store: Store, worker_id: str, run_id: str, state: str, info: str) -> None:
    """Note that a worker is alive, and what it does; raises UnknownRun."""
    run = runs.known(store, run_id).no
    store.tell("worker_beat", run=run, worker_id=worker_id, state=state, info=info, now=store.now())


def abandon(store: Store, worker_id: str, once: Sequence[str], reason: str) -> int:
    """End every lease of a worker, and return how many: tasks of the steps `once` die, the others go back."""
    abandoned = store.read("lease_of_worker", list[Held], worker_id=worker_id)
    if abandoned:
        runs_of = as_json(sorted({held.run for held in abandoned}))
        buried = set(store.read("sections_of", list[int], runs=runs_of, steps=as_json(once)))
        endings = Endings(store)
        for held in abandoned:
            if held.section in buried:
                endings.fail(held, reason, bury=True)
            else:
                endings.release(held)
        endings.write()
    return len(abandoned)
