"""A campaign on one queue: a crawl that goes on while faults are dealt, and the history of both."""

import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from shoal.core.events import DIED, GIVEN_UP, RESULT_REFUSED
from tools.chaos.children import Servant
from tools.chaos.faults import Striker
from tools.chaos.history import Death, History, Manners, Strike, Visit
from tools.chaos.launchers import Launchers
from tools.chaos.schedule import Fault, schedule
from tools.chaos.site import Site
from tools.chaos.stores import Store, open_store
from tools.chaos.witness import Witness

SCRAPER = Path(__file__).with_name("crawl.py")
TURN = 0.05  # seconds between two looks at what is due
NEARLY = 0.97  # of the pages, after which no more faults are dealt
LAST_BREATH = 15.0  # seconds in which the orphans of dead launchers may end
COUNT_INTERVAL = 0.5


class CommandFailed(Exception):
    """A command of the campaign's own did not do what it should."""


@dataclass(frozen=True)
class Plan:
    """What a campaign is to be."""

    queue: str
    site: Site
    kinds: list[str]
    seed: int
    span: float  # seconds in which faults are dealt
    every: float = 2.0  # seconds from fault to fault
    launchers: int = 2
    patience: float = 180.0  # seconds until the run must be drained, after the last fault
    manners: Manners = field(default_factory=Manners)
    environment: Mapping[str, str] = field(default_factory=dict)

    def faults(self) -> Iterator[Fault]:
        """Yield the faults to come."""
        return schedule(self.seed, self.kinds, every=self.every, lease=self.manners.lease)

    def preview(self) -> str:
        """Return the first faults in one line."""
        likely = round(self.span / self.every)
        return ", ".join(map(str, islice(self.faults(), min(likely, 12)))) or "none"


class Campaign:
    """Carries a plan out; `on_strike` hears of each fault, and how many pages were served by then."""

    def __init__(
        self, plan: Plan, folder: Path, on_strike: Callable[[Strike, int], None] = lambda strike, pages: None
    ) -> None:
        self._plan, self._folder, self._on_strike = plan, folder, on_strike
        self._served, self._counted = 0, 0.0

    def run(self) -> History:
        """Crawl and break until the run is drained or patience ends, and return what happened."""
        with ExitStack() as stack:
            store = stack.enter_context(open_store(self._plan.queue, self._folder))
            site, manners = self._plan.site, self._plan.manners
            self._origin = Servant("origin", site.pages, site.hosts, manners.retry_after)
            stack.callback(self._origin.close)
            self._run_id = self._enqueue(store)
            launchers = Launchers(
                [str(SCRAPER), "--run", self._run_id, "--queue", store.url, *self._settings()],
                self._folder,
                self._plan.launchers,
                self._plan.environment,
            )
            stack.callback(launchers.end)
            witness = stack.enter_context(Witness())
            pace = site.hosts / manners.delay
            return self._history(store, self._crawl(Striker(launchers, store, pace)), witness)

    def _crawl(self, striker: Striker) -> Striker:
        striker.launchers.start()
        self._deal(striker)
        striker.undo_all()
        self._wait(striker.launchers.tend, lambda: not striker.launchers.present, self._plan.patience)
        self._over = time.monotonic()
        self._wait(lambda: None, lambda: not striker.launchers.left_over(), LAST_BREATH)
        return striker

    def _deal(self, striker: Striker) -> None:
        """Deal faults until their time is over or nearly all pages were served."""
        self._wait(striker.launchers.tend, lambda: self._pages() > 0, self._plan.patience)
        began = due = time.monotonic()
        for fault in self._plan.faults():
            due += fault.after
            while time.monotonic() < due or not self._may_deal(fault, striker, began):
                if self._is_enough(striker.launchers, began):
                    return
                self._turn(striker)
            strike = striker.deal(fault)
            if strike:
                self._on_strike(strike, self._pages())
            due = time.monotonic()

    def _turn(self, striker: Striker) -> None:
        striker.launchers.tend()
        striker.undo_due()
        time.sleep(TURN)

    def _may_deal(self, fault: Fault, striker: Striker, began: float) -> bool:
        return fault.kind != "restart" or time.monotonic() > began + striker.store.settling

    def _is_enough(self, launchers: Launchers, began: float) -> bool:
        is_late = time.monotonic() > began + self._plan.span
        return is_late or launchers.is_drained or self._pages() > NEARLY * self._plan.site.pages

    def _pages(self) -> int:
        """Return how many pages were served, as of a moment ago."""
        if time.monotonic() > self._counted + COUNT_INTERVAL:
            self._served, self._counted = self._origin.ask("count"), time.monotonic()
        return self._served

    def _wait(self, tend: Callable[[], None], happened: Callable[[], bool], patience: float) -> None:
        give_up = time.monotonic() + patience
        while not happened() and time.monotonic() < give_up:
            tend()
            time.sleep(TURN)

    def _settings(self) -> list[str]:
        manners = self._plan.manners
        chosen = {"delay": f"{manners.delay}s", "per_host": manners.per_host, "lease": f"{manners.lease}s"}
        return [word for name, value in chosen.items() for word in ("--set", f"{name}={value}")]

    def _enqueue(self, store: Store) -> str:
        url = f"http://127.2.0.1:{self._origin.port}/page/0"
        words = ["enqueue", str(SCRAPER), "--url", url, *self._settings(), "--queue", store.url, "--json"]
        return str(json.loads(self._shoal(*words))["run_id"])

    def _history(self, store: Store, striker: Striker, witness: Witness) -> History:
        plan, launchers, to = self._plan, striker.launchers, ["--queue", store.url]
        left_over = [_name(pid) for pid in launchers.left_over()]
        self._shoal("export", self._run_id, "--to", "items.jsonl", *to)
        status = json.loads(self._shoal("status", self._run_id, "--json", *to))
        dead = self._shoal("dead", "list", self._run_id, "--limit", "1000000", "--json", *to)
        items = map(json.loads, (self._folder / "items.jsonl").read_text().splitlines())
        letters = map(json.loads, dead.splitlines())
        return History(
            site=plan.site,
            manners=plan.manners,
            visits=self._visits(),
            strikes=striker.strikes,
            items=Counter(item["page"] for item in items),
            letters={page_of(letter["url"]): letter["error"] for letter in letters},
            status=status,
            departures=launchers.departures,
            deaths=[
                death for number in range(1, len(launchers.sessions) + 1) for death in self._deaths(number)
            ],
            stalls=witness.stalls,
            stale=sum(map(_refused, self._folder.glob("launcher-*/logs/*.log"))),
            left_over=left_over,
            over=self._over,
        )

    def _visits(self) -> list[Visit]:
        rows = self._origin.ask("log")
        now = time.monotonic()
        return [Visit(host, page, at, until or now, status) for host, page, at, until, status in rows]

    def _deaths(self, launcher: int) -> Iterator[Death]:
        """Yield the workers that died, from a launcher's log of its fleet."""
        ahead = time.time() - time.monotonic()
        for event in _events(self._folder / f"launcher-{launcher}" / "logs" / "fleet.log"):
            if event.get("event") in (DIED, GIVEN_UP):
                at = datetime.fromisoformat(event["at"]).timestamp() - ahead
                yield Death(launcher, at, event["message"], is_final=event["event"] == GIVEN_UP)

    def _shoal(self, *words: str) -> str:
        command = [sys.executable, "-m", "shoal", *words]
        environment = os.environ | {"NO_COLOR": "1"}
        done = subprocess.run(
            command, cwd=self._folder, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise CommandFailed(f"shoal {words[0]} ended with {done.returncode}: {done.stderr.strip()}")
        return done.stdout


def page_of(url: str) -> int:
    """Return the number of a page."""
    return int(url.rpartition("/")[2])


def _refused(log: Path) -> int:
    """Count the finished pages in a log that came too late."""
    refused = (event for event in _events(log) if event.get("event") == RESULT_REFUSED)
    return sum(event.get("outcome") == "done" for event in refused)


def _events(log: Path) -> Iterator[dict[str, Any]]:
    """Yield what a log says, but for lines whose writer was killed in the middle of them."""
    for line in log.read_text().splitlines() if log.exists() else ():
        with suppress(ValueError):
            yield json.loads(line)


def _name(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        words = "gone by now"
    return f"{pid} {words.strip()}"
