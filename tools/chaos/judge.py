"""The judge: what a history breaks. Pure functions, which know nothing of how it came about."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise

from tools.chaos.history import Death, History, Strike, Visit
from tools.chaos.pace import crowded, hasty, impatient
from tools.chaos.site import Trouble

SETTLED = 5.0  # seconds within which a page that was fetched is settled, if nothing goes wrong
RECOVERY = 10.0  # seconds until pages come in again
STOPPING = 35.0  # seconds a launcher may take to end after SIGTERM
PLANNED = (429, 500)  # answers after which a page is asked for again, faults or none
# What a dead letter says whose attempts were used up by faults.
EXPLAINED = ("WorkerDied", "StepHung", "lease lost")
TAIL = 0.05  # the part of the site at whose end there may be nothing to ask for a while
DRAINED = (0, 3)

Rule = Callable[[History], Iterator[str]]


def lost(history: History) -> Iterator[str]:
    """Yield pages that have come to no end: neither an item nor a dead letter."""
    for page in range(history.site.pages):
        if not history.items[page] and page not in history.letters:
            yield f"page {page} has neither an item nor a dead letter{_parentage(history, page)}"


def _parentage(history: History, page: int) -> str:
    parent = history.site.parent(page)
    return f", but page {parent} that links to it is done" if parent in history.items else ""


def doubled(history: History) -> Iterator[str]:
    """Yield pages with more than one item."""
    for page, count in sorted(history.items.items()):
        if count > 1:
            yield f"page {page} has {count} items"


def invented(history: History) -> Iterator[str]:
    """Yield items of pages that have none to give."""
    site = history.site
    for page in sorted(history.items):
        if page >= site.pages or site.trouble(page) is Trouble.GONE:
            yield f"page {page} has an item, but the site has no such page"


def unfinished(history: History) -> Iterator[str]:
    """Yield where `shoal status` does not say that every page has come to its end, once."""
    status = history.status
    for state in ("pending", "delayed", "leased", "expired"):
        if status.get(state):
            yield f"{status[state]} tasks are {state}"
    ended = status.get("completed", 0) + status.get("dead", 0)
    if ended != history.site.pages:
        yield f"{ended} tasks are completed or dead, of {history.site.pages} pages"
    if status.get("items") != history.items.total():
        yield f"status counts {status.get('items')} items, and {history.items.total()} were exported"


def buried(history: History) -> Iterator[str]:
    """Yield dead letters that neither the site nor a fault explains."""
    for page, error in sorted(history.letters.items()):
        is_gone = page < history.site.pages and history.site.trouble(page) is Trouble.GONE
        if not is_gone and not (history.strikes and error.startswith(EXPLAINED)):
            yield f"page {page} is a dead letter: {error}"


def refetched(history: History) -> Iterator[str]:
    """Yield pages that were asked for again although no fault struck while they were in hand."""
    for before, again in repeats(history):
        if not any(_in_hand(before, strike) for strike in history.strikes):
            waited = again.at - before.at
            yield f"page {again.page} was asked for again after {waited:.1f} s, and no fault explains it"


def repeats(history: History) -> Iterator[tuple[Visit, Visit]]:
    """Yield the visits to one page that follow each other, where the first answer did not ask for it."""
    visits: dict[int, list[Visit]] = defaultdict(list)
    for visit in history.visits:
        visits[visit.page].append(visit)
    for of_page in visits.values():
        for before, again in pairwise(sorted(of_page, key=lambda visit: visit.at)):
            if before.status not in PLANNED:
                yield before, again


def _in_hand(visit: Visit, strike: Strike) -> bool:
    return strike.begin <= visit.until + SETTLED and strike.end >= visit.at


def wasteful(history: History) -> Iterator[str]:
    """Yield that more was asked for again than those who were struck can have had in hand."""
    extra, allowed = len(list(repeats(history))), sum(strike.held for strike in history.strikes)
    if extra > allowed:
        yield f"{extra} pages were asked for again, and {allowed} at most were in hand at a fault"


def sluggish(history: History) -> Iterator[str]:
    """Yield faults after which it took long until pages came in again."""
    for strike, seconds in recoveries(history):
        if seconds > RECOVERY:
            yield f"{seconds:.1f} s after the {strike.kind} of {strike.target} the next page came in"


def recoveries(history: History) -> Iterator[tuple[Strike, float]]:
    """Yield for each fault how long after its end, and that of others meanwhile, the next page came."""
    came = sorted(visit.at for visit in history.visits if visit.status == 200)
    last = _tail(history)
    for strike in history.strikes:
        after = next((at for at in came if at >= strike.end), None)
        if strike.end < last and after is not None:
            yield strike, after - _last_end(history.strikes, strike, after)


def _last_end(strikes: Iterable[Strike], strike: Strike, before: float) -> float:
    ended = (other.end for other in strikes if other.begin < before and other.end <= before)
    return max(strike.end, max(ended, default=strike.end))


def _tail(history: History) -> float:
    """Return from when on so little is left that nothing may be due for a while."""
    first: dict[int, float] = {}
    for visit in sorted(history.visits, key=lambda visit: visit.at):
        first.setdefault(visit.page, visit.at)
    moments = sorted(first.values())
    # Pages that were never asked for came last of all.
    left = round(history.site.pages * TAIL) - (history.site.pages - len(moments))
    return float("inf") if left <= 0 else moments[max(0, len(moments) - left)]


def deserted(history: History) -> Iterator[str]:
    """Yield launchers that gave up, though no fault ended them."""
    for departure in history.departures:
        if not departure.told and departure.code not in DRAINED:
            yield f"launcher {departure.launcher} ended by itself with exit code {departure.code}"


def stranded(history: History) -> Iterator[str]:
    """Yield places of workers that were given up: the fleet goes on with fewer than were asked for."""
    for death in history.deaths:
        if death.is_final:
            yield f"launcher {death.launcher} gave a worker up: it {death.message}"


def culled(history: History) -> Iterator[str]:
    """Yield workers that died although no fault struck them, most of them killed by their own keeper."""
    deaths = sorted((death for death in history.deaths if not death.is_final), key=lambda death: death.at)
    counted: Counter[int] = Counter()
    for death in deaths:
        counted[death.launcher] += 1
        if counted[death.launcher] > _struck(history, death):
            counted[death.launcher] -= 1  # so that one that nothing explains does not accuse the next
            yield f"a healthy worker of launcher {death.launcher} {death.message}"


def _struck(history: History, death: Death) -> int:
    """Return how many workers of a launcher faults had struck by the time that one died."""
    strikes = (strike for strike in history.strikes if strike.launcher == death.launcher)
    return sum(strike.workers for strike in strikes if strike.begin <= death.at)


def lingering(history: History) -> Iterator[str]:
    """Yield launchers that took too long to stop, and processes that never did."""
    for departure in history.departures:
        if departure.told == "term" and departure.seconds > STOPPING:
            yield f"launcher {departure.launcher} took {departure.seconds:.0f} s to end after SIGTERM"
    for process in history.left_over:
        yield f"left behind: {process}"


RULES: dict[str, Rule] = {
    rule.__name__: rule
    for rule in (
        *(lost, doubled, invented, unfinished, buried, refetched, wasteful),
        *(hasty, crowded, impatient, sluggish, deserted, stranded, culled, lingering),
    )
}


def judge(history: History) -> dict[str, list[str]]:
    """Return what the history breaks, by rule; an innocent one breaks nothing."""
    found = {name: list(rule(history)) for name, rule in RULES.items()}
    return {name: complaints for name, complaints in found.items() if complaints}
