"""What a schedule says: which scraper runs when and how; `cronsim` computes the times of cron expressions."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime, timedelta, tzinfo
from functools import partial
from hashlib import sha256
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

import msgspec
from cronsim import CronSim, CronSimError

from shoal.core.errors import InvalidSetting
from shoal.core.model import SECOND, ZERO
from shoal.core.values import hint, read_choice, read_duration, read_text, spelled
from shoal.export.tables.address import is_table
from shoal.fleet.project.cluster import read_fields, read_pattern, read_subtable, setting
from shoal.fleet.sources.names import read_seeds
from shoal.scrape.settings.scraper import SETTINGS
from shoal.worker.run_settings import storable

OVERLAPS = ("skip", "wait", "cancel")
MISSED = ("once", "skip")
CRON_FIELDS = 5
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_PASSWORD = re.compile(r'//[^/?#\s"]*:[^/?#\s"]*@')  # in an address
_SHOWN = "a schedule is shown to all who may read the queue. Leave it to the scraper"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,59}")  # it begins the ids of runs


def _read_cron(key: str, value: Any) -> str:
    text = read_text(key, value).strip()
    example = "such as '0 2 * * *': minute, hour, day of the month, month, day of the week"
    if len(text.split()) != CRON_FIELDS:
        raise InvalidSetting(key, f"must be a cron expression of five fields {example}, got {text!r}")
    try:
        next(CronSim(text, EPOCH))
    except CronSimError as error:
        reason = str(error)
        raise InvalidSetting(
            key, f"is no cron expression {example}: {reason[:1].lower()}{reason[1:]}"
        ) from error
    except StopIteration:
        raise InvalidSetting(key, f"never occurs: {text!r}") from None
    return text


def _read_span(key: str, value: Any, *, least: timedelta = ZERO) -> str:
    if read_duration(key, value) < least:
        raise InvalidSetting(key, f"must be at least {spelled(least)}, got {value!r}")
    return str(value)


def _read_timezone(key: str, value: Any) -> str:
    _zone(key, read_text(key, value))
    return str(value)


def _zone(key: str, name: str) -> tzinfo:
    # The library treats UTC as a zone without changes only if it is this object.
    if name == "UTC":
        return UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        known = available_timezones()
        if not known:
            reason = "cannot be read: this machine has no time zones. Run: pip install tzdata"
            raise InvalidSetting(key, reason) from error
        raise InvalidSetting(
            key, f"must be a time zone such as 'Europe/Berlin', got {name!r}. {hint(name, known)}"
        ) from error


def _read_seeds(key: str, value: Any) -> dict[str, Any]:
    read_seeds(read_subtable(key, value), lambda name: f"{key}.{name}")
    return dict(value)


def _read_settings(key: str, value: Any) -> dict[str, Any]:
    for name, given in read_subtable(key, value).items():
        if name not in SETTINGS:
            raise InvalidSetting(f"{key}.{name}", f"is not a setting of scrapers. {hint(name, SETTINGS)}")
        SETTINGS[name].read(f"{key}.{name}", given)
    for name in storable(value)[1]:
        raise InvalidSetting(f"{key}.{name}", f"contains a secret, and {_SHOWN}")
    return dict(value)


def _read_output(key: str, value: Any) -> str:
    text = read_pattern(key, value)
    if not is_table(text) and "{run}" not in text:
        raise InvalidSetting(key, f"is one file for every run; write {{run}} in its name, got {text!r}")
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """When a scraper runs, with which arguments, seeds and settings, and where its items go."""

    scraper: str = setting(read_text, "")
    cron: str | None = setting(_read_cron)
    every: str | None = setting(partial(_read_span, least=SECOND))
    timezone: str = setting(_read_timezone, "UTC")
    jitter: str = setting(_read_span, "0s")
    overlap: str = setting(partial(read_choice, known=OVERLAPS), "skip")  # while the run before is not over
    missed: str = setting(partial(read_choice, known=MISSED), "once")  # after no coordinator was there
    time_limit: str | None = setting(partial(_read_span, least=SECOND))  # of a run, since it began
    args: Mapping[str, Any] = field(default_factory=dict, metadata={"read": read_subtable})
    seeds: Mapping[str, Any] = field(default_factory=dict, metadata={"read": _read_seeds})
    settings: Mapping[str, Any] = field(default_factory=dict, metadata={"read": _read_settings})
    out: str | None = setting(_read_output)

    @classmethod
    def read(cls, where: str, given: Any) -> "Schedule":
        """Read a schedule from a table; an InvalidSetting names the key below `where`."""
        found = read_fields(cls, where, given)
        if not found.scraper:
            raise InvalidSetting(f"{where}.scraper", 'is missing; add scraper = "books"')
        if (found.cron is None) == (found.every is None):
            reason = 'needs either cron = "0 2 * * *" or every = "6h"'
            raise InvalidSetting(where, reason)
        if found.every and read_duration("", found.jitter) > read_duration("", found.every):
            raise InvalidSetting(f"{where}.jitter", f"must not be longer than the interval, {found.every}")
        if _PASSWORD.search(msgspec.json.encode(given).decode()):
            raise InvalidSetting(where, f"contains a password, and {_SHOWN}")
        if found.every and found.timezone != "UTC":
            raise InvalidSetting(f"{where}.timezone", "is for cron; intervals count from midnight in UTC")
        return found

    def as_table(self) -> dict[str, Any]:
        """Return what `read` reads, without what is as by default."""
        default = Schedule()
        return {name: value for name, value in asdict(self).items() if value != getattr(default, name)}

    def is_over_time(self, began: datetime, now: datetime) -> bool:
        """Return whether a run has reached the time limit."""
        return self.time_limit is not None and now - began >= read_duration("time_limit", self.time_limit)

    @property
    def words(self) -> str:
        """When it runs, in a few words."""
        when = f"cron {self.cron} {self.timezone}" if self.cron else f"every {self.every}"
        return when if read_duration("jitter", self.jitter) == ZERO else f"{when}, up to {self.jitter} later"

    def next_after(self, moment: datetime) -> datetime | None:
        """Return the first occurrence after a moment, in UTC; None if there is none any more.

        When the clocks change, a time that does not exist occurs right after the gap, and one that exists
        twice occurs the first time only; with `*` in the hour or the minute, both.
        """
        if self.every:
            step = read_duration("every", self.every)
            return EPOCH + ((moment - EPOCH) // step + 1) * step
        times = CronSim(self.cron or "", moment.astimezone(_zone("timezone", self.timezone)))
        # Begun in the second of two equal hours, the library may return a time in the first.
        return next((found for one in times if (found := one.astimezone(UTC)) > moment), None)

    def due_at(self, name: str, at: datetime) -> datetime:
        """Return when an occurrence is due: at its time or up to `jitter` later, on all machines the same.

        It is never later than the time of the next one, which would be due while this one waits.
        """
        longest = read_duration("jitter", self.jitter)
        if not longest:
            return at
        if upcoming := self.next_after(at):
            longest = min(longest, upcoming - at)
        draw = int.from_bytes(sha256(f"{name} {at.isoformat()}".encode()).digest()[:8]) / 2**64
        return at + draw * longest


FIELDS = tuple(each.name for each in fields(Schedule))


def check_name(key: str, name: str) -> str:
    """Return the name of a schedule; raises InvalidSetting."""
    if not _NAME.fullmatch(name):
        raise InvalidSetting(key, f"must be 1 to 60 letters, digits, '_' or '-', got {name[:80]!r}")
    return name
