"""What happened in a campaign, as it looks from outside: all that the judge is told."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tools.chaos.site import Site


@dataclass(frozen=True, slots=True)
class Manners:
    """What the scraper has promised its hosts; times are in seconds."""

    delay: float = 0.5
    per_host: int = 2
    lease: float = 3.0
    retry_after: float = 4.0


@dataclass(frozen=True, slots=True)
class Visit:
    """One request as its host saw it; all moments are those of one monotonic clock."""

    host: int
    page: int
    at: float
    until: float  # when it was answered, or its connection was lost
    status: int  # 0: it was lost


@dataclass(slots=True)
class Strike:
    """A fault that was dealt: to whom, from when until when."""

    kind: str
    target: str
    begin: float
    end: float
    held: int  # the most pages that those who were struck could have had in hand
    woken: int = 0  # workers that it stopped, and that woke at its end
    let_go: float = 0.0  # when its end began: who wakes first acts before the last is woken
    launcher: int = 0  # whose workers it struck, 0 for none
    workers: int = 0  # how many of them: those that their keeper may end


@dataclass(frozen=True, slots=True)
class Departure:
    """The end of a launcher; `told` if a fault ended it."""

    launcher: int
    code: int
    told: str
    seconds: float  # from the fault to the end


@dataclass(frozen=True, slots=True)
class Death:
    """A worker that died or failed, as its launcher's log has it; `is_final` if nobody takes its place."""

    launcher: int
    at: float
    message: str
    is_final: bool = False


@dataclass(frozen=True, slots=True)
class Stall:
    """A moment in which the machine kept a process waiting that was due."""

    at: float
    late: float


@dataclass(slots=True)
class History:
    """A campaign on one queue, when it is over."""

    site: Site
    manners: Manners
    visits: Sequence[Visit]
    strikes: Sequence[Strike]
    items: Counter[int]  # by page
    letters: Mapping[int, str]  # the errors of dead letters, by page
    status: Mapping[str, Any]  # what `shoal status --json` says
    departures: Sequence[Departure] = ()
    deaths: Sequence[Death] = ()
    stalls: Sequence[Stall] = ()
    stale: int = 0  # results that came too late and were refused
    left_over: Sequence[str] = ()  # processes that outlived their launcher
    over: float = 0.0  # when the last launcher had ended
