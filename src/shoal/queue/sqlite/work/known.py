"""The keys that runs of a scraper have queued, which its other runs skip for a while: `RunSettings.dedup`."""

from collections.abc import Sequence

from shoal.queue.intake import QueuedTask
from shoal.queue.sqlite.encoding import as_json
from shoal.queue.sqlite.store import Store

BATCH = 2_000
FIRST = ""


def skip_known(store: Store, run: int, entries: Sequence[QueuedTask], now: int) -> Sequence[QueuedTask]:
    """Return the tasks that no other run has queued, and record that this run queues them."""
    given = [
        (position, entry.id.hex(), entry.scraper_key.hex())
        for position, entry in enumerate(entries)
        if entry.scraper_key is not None
    ]
    if not given:
        return entries
    found = store.read("known_look", list[tuple[int, int]], run=run, now=now, given=as_json(given))
    store.run_many(
        "known_add", [(run, now, entries[position].scraper_key) for position, known in found if not known]
    )
    known = {position for position, known in found if known}
    return [entry for position, entry in enumerate(entries) if position not in known] if known else entries


def expire(store: Store, now: int) -> bool:
    """Delete some expired keys; return whether there may be more."""
    return store.run("known_expire", now=now, limit=BATCH) == BATCH


def forget(store: Store, scraper: str, after: str) -> tuple[int, str] | None:
    """Delete the next keys of a scraper after `after`.

    Returns how many of them had not expired, and the last one; None when none are left.
    """
    now = store.now()
    page = store.find("known_page", tuple[float, str], scraper=scraper, after=after, now=now, limit=BATCH)
    if page is None:
        return None
    count, last = page
    store.run("known_forget", scraper=scraper, after=after, last=last)
    return int(count), last
