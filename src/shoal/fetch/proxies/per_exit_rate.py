"""A rate limit per host that applies to each proxy separately."""

from collections.abc import Callable, Iterable

Clock = Callable[[], float]
MAX_RECORDS = 100_000
SETTLING = 4.0  # seconds for which a worker's slice is valid; then every worker knows of a change
# No other worker has taken the slice over for this many seconds after that: a worker counts as gone 15 s
# after its note, which is at most 8 s old when a slice is confirmed.
RETAINED = 3.0
RECHECK = 1.0  # seconds to wait for a slice to be confirmed


class PerExitRate:
    """Tells when a proxy may send to a host again; without a gap, always."""

    def __init__(self, gap: float, clock: Clock) -> None:
        self.gap, self._clock = gap, clock
        self._last_sent: dict[str, float] = {}  # when a proxy last sent to a host, by both names
        self._settled: dict[str, float] = {}  # when a proxy that another worker may have used is usable
        self._valid_until = float("inf")  # of this worker's slice

    def wait(self, proxy: str, host: str) -> float:
        """Return the seconds until a proxy may send to a host."""
        if not self.gap:
            return 0.0
        last_sent = self._last_sent.get(f"{proxy} {host}", float("-inf"))
        free = max(last_sent + self.gap, self._settled.get(proxy, 0.0))
        now = self._clock()
        # A worker that was delayed may not know that its proxies are another worker's by now.
        is_late = now >= self._valid_until
        return max(RECHECK if is_late else 0.0, free - now)

    def record_request(self, proxy: str, host: str) -> None:
        """Record that a proxy sends to a host now."""
        if not self.gap:
            return
        now = self._clock()
        if len(self._last_sent) >= MAX_RECORDS:
            self._last_sent = {one: at for one, at in self._last_sent.items() if at + self.gap > now}
        self._last_sent[f"{proxy} {host}"] = now

    def confirm(self, read_at: float) -> None:
        """Record that the slice was this worker's when the fleet's state was read."""
        if read_at - self._valid_until >= RETAINED:
            self.update((), list(self._settled))
        self._valid_until = read_at + SETTLING

    def update(self, stay: Iterable[str], new: Iterable[str]) -> None:
        """Hold back new proxies until the workers that had them know of the change."""
        settled = self._clock() + SETTLING + self.gap
        self._settled = {name: self._settled.get(name, 0.0) for name in stay} | dict.fromkeys(new, settled)
