"""Dealing faults: whom each strikes, what is done to it, and how it is undone."""

import heapq
import signal
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from tools.chaos.children import send
from tools.chaos.history import Strike
from tools.chaos.launchers import CONCURRENCY, WORKERS, Launcher, Launchers
from tools.chaos.proxy import CUT, HEAR, LOSE
from tools.chaos.schedule import Fault
from tools.chaos.stores import Store

Some = TypeVar("Some")
# Pages of a worker: in the air, and on their way to the queue.
HELD = 2 * CONCURRENCY


@dataclass
class Striker:
    """Deals faults to the launchers and the store of a campaign, and keeps a log of them."""

    launchers: Launchers
    store: Store
    pace: float = 0.0  # pages a second that the hosts allow
    strikes: list[Strike] = field(default_factory=list)
    _undoing: list[tuple[float, int, Callable[[], None]]] = field(default_factory=list)

    def deal(self, fault: Fault) -> Strike | None:
        """Deal a fault; None when there is nobody whom it could strike."""
        strike = Strike(fault.kind, "", time.monotonic(), 0.0, 0)
        if not DEALS[fault.kind](self, fault, strike):
            return None
        strike.end = strike.end or time.monotonic()
        self.strikes.append(strike)
        return strike

    def undo_due(self, *, now: float | None = None) -> None:
        """End the faults whose time is over."""
        now = time.monotonic() if now is None else now
        while self._undoing and self._undoing[0][0] <= now:
            heapq.heappop(self._undoing)[2]()

    def undo_all(self) -> None:
        """End all faults, for nothing more is to come."""
        self.undo_due(now=float("inf"))

    def kill(self, fault: Fault, strike: Strike) -> bool:
        found = self._worker(fault)
        if found:
            launcher, worker = found
            strike.target, strike.held = f"worker {worker} of launcher {launcher.number}", HELD
            strike.launcher, strike.workers = launcher.number, 1
            send(signal.SIGKILL, [worker])
        return bool(found)

    def crash(self, fault: Fault, strike: Strike) -> bool:
        return self._end(fault, strike, signal.SIGKILL, lambda launcher: [launcher.pid])

    def loss(self, fault: Fault, strike: Strike) -> bool:
        return self._end(fault, strike, signal.SIGKILL, Launcher.family)

    def term(self, fault: Fault, strike: Strike) -> bool:
        return self._end(fault, strike, signal.SIGTERM, lambda launcher: [launcher.pid])

    def stop(self, fault: Fault, strike: Strike) -> bool:
        found = self._worker(fault)
        if found:
            launcher, worker = found
            strike.target, strike.held = f"worker {worker} of launcher {launcher.number}", HELD
            strike.woken = 1
            strike.launcher, strike.workers = launcher.number, 1
            self._hold(launcher, [worker], fault, strike)
        return bool(found)

    def deaf(self, fault: Fault, strike: Strike) -> bool:
        return self._stop(fault, strike, lambda launcher: [launcher.pid])

    def freeze(self, fault: Fault, strike: Strike) -> bool:
        strike.woken = strike.workers = WORKERS
        return self._stop(fault, strike, Launcher.family)

    def restart(self, fault: Fault, strike: Strike) -> bool:
        server = _picked(self.store.servers, fault.pick)
        strike.target, strike.held = server.name, self._all_held()
        self.store.restart(server, fault.lasts)
        return True

    def cut(self, fault: Fault, strike: Strike) -> bool:
        strike.target, strike.held = _picked(list(self.store.proxies), fault.pick), self._all_held()
        self.store.order(strike.target, CUT)
        return True

    def lose(self, fault: Fault, strike: Strike) -> bool:
        name = _picked(list(self.store.proxies), fault.pick)
        strike.target, strike.held = name, self._all_held()
        self.store.order(name, LOSE)
        self._later(fault, strike, lambda: self.store.order(name, HEAR))
        return True

    def silence(self, fault: Fault, strike: Strike) -> bool:
        name = _picked(list(self.store.proxies), fault.pick)
        strike.target, strike.held = name, self._all_held()
        self.store.hush(name)
        self._later(fault, strike, lambda: self.store.speak(name))
        return True

    def condition(self, fault: Fault, strike: Strike) -> bool:
        condition = self.store.conditions[fault.kind]
        strike.target, strike.held = condition.target, self._all_held()
        undo = condition.begin()
        if undo:
            self._later(fault, strike, undo)
        return undo is not None

    def failover(self, fault: Fault, strike: Strike) -> bool:
        is_dealt = self.condition(fault, strike)
        # What was done in the lost moments is done again.
        strike.held += round(self.pace * fault.lasts)
        return is_dealt

    def _end(
        self, fault: Fault, strike: Strike, how: signal.Signals, whom: Callable[[Launcher], list[int]]
    ) -> bool:
        launcher = self._launcher(fault)
        if launcher:
            strike.target, strike.held = f"launcher {launcher.number}", WORKERS * HELD
            launcher.tell(fault.kind)
            send(how, whom(launcher))
        return launcher is not None

    def _stop(self, fault: Fault, strike: Strike, whom: Callable[[Launcher], list[int]]) -> bool:
        launcher = self._launcher(fault)
        if launcher:
            strike.target, strike.held = f"launcher {launcher.number}", WORKERS * HELD
            strike.launcher = launcher.number
            self._hold(launcher, whom(launcher), fault, strike)
        return launcher is not None

    def _hold(self, launcher: Launcher, pids: list[int], fault: Fault, strike: Strike) -> None:
        send(signal.SIGSTOP, pids)
        launcher.stopped += 1

        def let_go() -> None:
            send(signal.SIGCONT, pids)
            launcher.stopped -= 1

        self._later(fault, strike, let_go)

    def _later(self, fault: Fault, strike: Strike, undo: Callable[[], None]) -> None:
        def undone() -> None:
            strike.let_go = time.monotonic()
            undo()
            strike.end = time.monotonic()

        strike.end = strike.begin + fault.lasts
        heapq.heappush(self._undoing, (strike.end, len(self.strikes), undone))

    def _launcher(self, fault: Fault) -> Launcher | None:
        """Return a launcher that is well, if there is one."""
        well = [one for one in self.launchers.present if not one.told and not one.stopped and one.workers()]
        return _picked(well, fault.pick) if well else None

    def _worker(self, fault: Fault) -> tuple[Launcher, int] | None:
        launcher = self._launcher(fault)
        workers = launcher.workers() if launcher else []
        # The same number would choose the first worker of the first launcher, or the last of the last.
        return (launcher, _picked(workers, fault.pick * 7 % 1)) if launcher and workers else None

    def _all_held(self) -> int:
        return self.launchers.count * WORKERS * HELD


def _picked(there: Sequence[Some], pick: float) -> Some:
    return there[int(pick * len(there))]


DEALS: dict[str, Callable[[Striker, Fault, Strike], bool]] = {
    "kill": Striker.kill,
    "crash": Striker.crash,
    "loss": Striker.loss,
    "term": Striker.term,
    "stop": Striker.stop,
    "deaf": Striker.deaf,
    "freeze": Striker.freeze,
    "restart": Striker.restart,
    "cut": Striker.cut,
    "lose": Striker.lose,
    "silence": Striker.silence,
    "full": Striker.condition,
    "readonly": Striker.condition,
    "foreign": Striker.condition,
    "failover": Striker.failover,
    "alarm": Striker.condition,
}
