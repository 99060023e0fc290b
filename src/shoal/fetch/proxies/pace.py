"""A host's gap, kept for each proxy by itself."""

from collections.abc import Callable, Iterable

Clock = Callable[[], float]
MOST_ASKED = 100_000
SETTLING = 4.0  # seconds in which every worker has heard who has which slice


class Pace:
    """Knows when a proxy may ask a host again; without a gap, always."""

    def __init__(self, gap: float, clock: Clock) -> None:
        self.gap, self._clock = gap, clock
        self._asked: dict[str, float] = {}  # when a proxy asked a host, by both names
        self._settled: dict[str, float] = {}  # when a proxy may be taken that another worker may have had

    def wait(self, proxy: str, host: str) -> float:
        """Return how many seconds it takes until a proxy may ask a host."""
        if not self.gap:
            return 0.0
        asked = self._asked.get(f"{proxy} {host}", float("-inf"))
        free = max(asked + self.gap, self._settled.get(proxy, 0.0))
        return max(0.0, free - self._clock())

    def asked(self, proxy: str, host: str) -> None:
        """Remember that a proxy asks a host now."""
        if not self.gap:
            return
        now = self._clock()
        if len(self._asked) >= MOST_ASKED:
            self._asked = {one: at for one, at in self._asked.items() if at + self.gap > now}
        self._asked[f"{proxy} {host}"] = now

    def line_up(self, stay: Iterable[str], new: Iterable[str]) -> None:
        """Let proxies that are new rest until whoever had them has heard of it."""
        settled = self._clock() + SETTLING + self.gap
        self._settled = {name: self._settled.get(name, 0.0) for name in stay} | dict.fromkeys(new, settled)
