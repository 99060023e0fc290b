"""How the hosts that complained are treated, as far as this worker knows."""

from collections.abc import Mapping
from datetime import timedelta

from shoal.core.model import ZERO
from shoal.core.pacing import recovered

ONE_COMPLAINT = 1.0  # seconds: what was in the air together is answered alike, and slows the host once


class Manners:
    """Remembers which hosts were slowed, so that they recover step by step."""

    def __init__(self, gap: timedelta) -> None:
        self._gap = gap  # between two starts of a host that has not complained
        self._delays: dict[str, timedelta] = {}
        self._floors: dict[str, timedelta] = {}
        self._complained_at: dict[str, float] = {}
        self._changed: dict[str, timedelta | None] = {}  # since the fleet was told
        self._heard: set[str] = set()  # hosts that the fleet holds for slowed

    def news(self) -> dict[str, timedelta | None]:
        """Return the delays that this worker changed since it was asked last; None is no delay any more."""
        news, self._changed = self._changed, {}
        return news

    def hear(self, known: Mapping[str, timedelta]) -> None:
        """Take in which hosts the fleet holds for slowed, except where this worker knows better."""
        for host in self._heard - known.keys() - self._changed.keys():
            self._forget(host, self._floors.get(host, ZERO))
        for host in known.keys() - self._changed.keys():
            self._delays[host] = max(known[host], self._floors.get(host, ZERO))
        self._heard = set(known)

    def delay(self, host: str | None, now: float) -> timedelta:
        """Return the delay from which a host that complains at this moment is slowed further."""
        if host is None:
            return self._gap
        delay = max(self._gap, self._delays.get(host, ZERO))
        again = now - self._complained_at.get(host, -ONE_COMPLAINT) < ONE_COMPLAINT
        return delay / 2 if again else delay

    def slowed(self, host: str | None, delay: timedelta | None, now: float) -> None:
        """Remember that the host complained, and was slowed to this delay."""
        if host and delay:
            if now - self._complained_at.get(host, -ONE_COMPLAINT) >= ONE_COMPLAINT:
                self._complained_at[host] = now
            self._delays[host] = self._changed[host] = max(delay, self._floors.get(host, ZERO))

    def wishes(self, host: str, floor: timedelta) -> timedelta | None:
        """Take in the host's own wish (Crawl-delay); return the delay to set, None when it is set already."""
        if self._floors.get(host) == floor:
            return None
        self._floors[host] = floor
        self._delays[host] = max(floor, self._delays.get(host, ZERO))
        return self._delays[host]

    def succeeded(self, host: str | None) -> timedelta | None:
        """Return the delay of a slowed host after a success, None when there is nothing to change."""
        if host is None or host not in self._delays:
            return None
        floor = self._floors.get(host, ZERO)
        if self._delays[host] <= floor:
            return None
        delay = recovered(self._delays[host], floor)
        # Below the run's own gap the host's is of no effect.
        if delay > max(self._gap, floor):
            self._delays[host] = self._changed[host] = delay
            return delay
        self._forget(host, floor)
        self._changed[host] = None
        return floor

    def _forget(self, host: str, floor: timedelta) -> None:
        self._complained_at.pop(host, None)
        if floor:
            self._delays[host] = floor
        else:
            self._delays.pop(host, None)
