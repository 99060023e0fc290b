"""Deleting a run: it is gone at once, and its rows follow piece by piece, so that nobody waits long."""

from shoal.queue.sqlite import runs
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json

AT_ONCE = 2_000
_LISTS = ("purge_item", "purge_reject", "purge_dead", "purge_expired", "purge_dropped", "purge_expiry")
_REST = ("purge_lanes", "purge_sections", "purge_workers", "purge_unmark")


def forget(store: Store, run_id: str) -> None:
    """Make a run unknown and free its hosts; raises UnknownRun."""
    run = runs.known(store, run_id).no
    hosts = store.value("purge_hosts", run=run)
    for statement in ("purge_leases", "purge_run", "purge_mark"):
        store.tell(statement, run=run)
    store.tell("arm", lanes="[]", hosts=hosts)


def clear(store: Store) -> bool:
    """Delete some rows of runs that are gone; False when none are left."""
    run = store.value("purge_next")
    if run is None:
        return False
    listed = sum(store.tell(name, run=run, limit=AT_ONCE) for name in _LISTS)
    if not listed and not _clear_tasks(store, run):
        for name in _REST:
            store.tell(name, run=run)
    return True


def _clear_tasks(store: Store, run: int) -> int:
    tasks = store.read("purge_some", list[tuple[int, int]], run=run, limit=AT_ONCE)
    places = as_json([place for _, place in tasks])
    store.tell("ready_remove", tasks=as_json(tasks))
    for name in ("delayed_remove", "purge_failures", "purge_yielded", "purge_tasks"):
        store.tell(name, places=places)
    return len(tasks)
