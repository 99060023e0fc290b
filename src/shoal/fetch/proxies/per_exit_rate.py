"""A rate limit per host that applies to each proxy separately."""

from collections.abc import Callable, Iterable

Clock = Callable[[], float]
MAX_RECORDS = 100_000
SETTLING = 4.0  # seconds until every worker knows which slice it has


class PerExitRate:
    """Tells when a proxy may send to a host again; without a gap, always."""

    def __init__(self, gap: float, clock: Clock) -> None:
        self.gap, self._clock = gap, clock
        self._last_sent: dict[str, float] = {}  # when a proxy last sent to a host, by both names
        self._settled: dict[str, float] = {}  # when a proxy that another worker may have used is usable

    def wait(self, proxy: str, host: str) -> float:
        """Return the seconds until a proxy may send to a host."""
        if not self.gap:
            return 0.0
        last_sent = self._last_sent.get(f"{proxy} {host}", float("-inf"))
        free = max(last_sent + self.gap, self._settled.get(proxy, 0.0))
        return max(0.0, free - self._clock())

    def record_request(self, proxy: str, host: str) -> None:
        """Record that a proxy sends to a host now."""
        if not self.gap:
            return
        now = self._clock()
        if len(self._last_sent) >= MAX_RECORDS:
            self._last_sent = {one: at for one, at in self._last_sent.items() if at + self.gap > now}
        self._last_sent[f"{proxy} {host}"] = now

    def update(self, stay: Iterable[str], new: Iterable[str]) -> None:
        """Hold back new proxies until the workers that had them know of the change."""
        settled = self._clock() + SETTLING + self.gap
        self._settled = {name: self._settled.get(name, 0.0) for name in stay} | dict.fromkeys(new, settled)
