"""Runs: started once, looked up by every verb, and steered."""

import msgspec

from shoal.core.errors import RunConflict, UnknownRun
from shoal.core.model import Run, RunSettings, RunState
from shoal.queue.rules import STEERED_FROM, new_run_id, steered
from shoal.queue.sqlite.moment import duration, micros, moment, optional_duration, optional_micros
from shoal.queue.sqlite.store import Store
from shoal.queue.sqlite.texts import as_json


class RunRow(msgspec.Struct, array_like=True, frozen=True):
    """A run as the table holds it."""

    no: int
    id: str
    scraper: str
    state: RunState
    host_delay: int
    per_host: int
    max_attempts: int
    ttl: int | None
    started_at: int
    reason: str
    dedup: int | None
    dedup_steps: tuple[str, ...]

    def run(self) -> Run:
        settings = RunSettings(
            host_delay=duration(self.host_delay),
            per_host=self.per_host,
            max_attempts=self.max_attempts,
            ttl=optional_duration(self.ttl),
            dedup=optional_duration(self.dedup),
            dedup_steps=self.dedup_steps,
        )
        return Run(
            id=self.id,
            scraper=self.scraper,
            settings=settings,
            state=self.state,
            started_at=moment(self.started_at),
            reason=self.reason,
        )


def start(store: Store, scraper: str, settings: RunSettings, run_id: str | None) -> Run:
    """Make a run, or return the one that has this id; raises RunConflict."""
    now = store.now()
    if run_id is None:
        run_id = new_run_id(moment(now))
        while store.find("run_get", RunRow, run_id=run_id):
            run_id = new_run_id(moment(now))
    store.tell(
        "run_add",
        run_id=run_id,
        scraper=scraper,
        host_delay=micros(settings.host_delay),
        per_host=settings.per_host,
        max_attempts=settings.max_attempts,
        ttl=optional_micros(settings.ttl),
        dedup=optional_micros(settings.dedup),
        dedup_steps=as_json(settings.dedup_steps),
        now=now,
    )
    row = known(store, run_id)
    if row.scraper != scraper:
        raise RunConflict.of_another(run_id, row.scraper, scraper)
    return row.run()


def known(store: Store, run_id: str) -> RunRow:
    """Return a run's row; raises UnknownRun."""
    row = store.find("run_get", RunRow, run_id=run_id)
    if row is None:
        raise unknown(store, run_id)
    return row


def look_up(store: Store, run_id: str) -> Run:
    """Return a run; raises UnknownRun."""
    return known(store, run_id).run()


def unknown(store: Store, run_id: str) -> UnknownRun:
    """Return the error for a run that is not there."""
    return UnknownRun(run_id, store.read("run_names", list[str]))


def every(store: Store) -> list[Run]:
    """Return all runs, the newest first."""
    return [row.run() for row in store.read("run_list", list[RunRow])]


def steer(store: Store, run_id: str, state: RunState, reason: str = "") -> Run:
    """Bring a run into a state; raises RunConflict where the one that it is in does not allow it."""
    row = known(store, run_id)
    if row.state in STEERED_FROM[state]:
        store.tell("run_steer", run=row.no, state=state.value, reason=reason)
        row = msgspec.structs.replace(row, state=state, reason=reason)
    return steered(row.run(), state)
