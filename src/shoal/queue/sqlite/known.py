"""What the runs of a scraper have queued, known to its other runs for a while: `RunSettings.dedup`."""

from collections.abc import Sequence

from shoal.queue.intake import Entry
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json

AT_ONCE = 2_000
FIRST = ""


def leave_out(store: Store, run: int, entries: Sequence[Entry], now: int) -> Sequence[Entry]:
    """Return the tasks that no other run has queued, and note that this one does."""
    given = [
        (place, entry.id.hex(), entry.scraper_key.hex())
        for place, entry in enumerate(entries)
        if entry.scraper_key is not None
    ]
    if not given:
        return entries
    found = store.read("known_look", list[tuple[int, int]], run=run, now=now, given=as_json(given))
    store.many("known_add", [(run, now, entries[place].scraper_key) for place, known in found if not known])
    known = {place for place, known in found if known}
    return [entry for place, entry in enumerate(entries) if place not in known] if known else entries


def expire(store: Store, now: int) -> bool:
    """Delete some keys whose time is over; return whether there may be more."""
    return store.tell("known_expire", now=now, limit=AT_ONCE) == AT_ONCE


def forget(store: Store, scraper: str, after: str) -> tuple[int, str] | None:
    """Delete the next keys of a scraper behind `after`.

    Returns how many of them were still known, and the last one; None when none are left.
    """
    now = store.now()
    page = store.find("known_page", tuple[float, str], scraper=scraper, after=after, now=now, limit=AT_ONCE)
    if page is None:
        return None
    count, last = page
    store.tell("known_forget", scraper=scraper, after=after, last=last)
    return int(count), last
