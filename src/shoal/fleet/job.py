"""A job: a scraper with the settings its workers run with."""

import os
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
from msgspec.structs import replace

from shoal.core.events import Level
from shoal.core.model import MINUTE, SEED_STEP, ZERO, Run
from shoal.fleet.command_hints import option_text
from shoal.fleet.telemetry.logs import LogPlan
from shoal.scrape.scraper import Scraper
from shoal.worker.ipc.calls import Listening
from shoal.worker.ipc.protocol import WorkerConfig
from shoal.worker.partitions import HEARTBEAT, PartitionMode, PartitionRole
from shoal.worker.process.dead_worker import StepLimit
from shoal.worker.process.forkserver import ForkServer
from shoal.worker.run_settings import replaced
from shoal.worker.secrets import all_secrets
from shoal.worker.slots import MAX_PAGE_BYTES

# The supervisor extends the leases of its worker, so a short lease works for a long step too: it is how long
# the tasks of a lost machine wait.
LEASE = MINUTE
FETCHES_PER_TASK = 4  # at most


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A scraper with the settings its workers run with."""

    scraper: Scraper
    name: str  # as it was typed: FILE[:NAME], or a name in the project file
    reference: str  # where workers on this machine load it from: FILE[:NAME]
    queue_url: str
    overrides: dict[str, Any] = {}  # settings that differ from the scraper's file
    typed: dict[str, Any] = {}  # the part of `overrides` that was typed
    args: dict[str, Any] = {}  # the arguments of a new run, as they were given
    typed_args: dict[str, Any] = {}  # the part of `args` that was typed
    workers: int = 1
    concurrency: int | None = None  # requests in flight and running steps per worker; None: the default
    batch: int = 50
    memory: int = MAX_PAGE_BYTES
    steps: list[str] | None = None
    partitions: list[str] | None = None  # or the single word `auto` or `exclusive`: assigned by a plan
    homes: dict[str, int] = {}  # a fixed plan: worker number of each partition
    heartbeat: timedelta = HEARTBEAT
    logs: LogPlan | None = None
    reports_warnings: bool = False  # its workers report what is logged as a warning, rather than print it
    metrics: tuple[str, int] | None = None  # the address that serves them
    trace: bool = False
    listening: Listening | None = None  # its workers handle on-demand calls, and claim nothing
    stagger: timedelta = ZERO  # delay between the starts of two workers
    span: timedelta | None = None  # maximum run time
    fork_server: ForkServer | None = None  # for the single launch of this job; None starts one
    joins: bool = False  # joins a run that other pools may work on too
    base: Scraper | None = None  # the scraper without the typed settings; None: they cannot be told apart

    def with_settings(self, settings: Mapping[str, Any]) -> "Job":
        """Return the job with these settings in place of the typed ones."""
        own = {key: value for key, value in self.overrides.items() if key not in self.typed}
        scraper = (self.base or self.scraper).replace(**settings)
        scraper.args = self.scraper.args
        return replace(
            self,
            scraper=scraper,
            typed=dict(settings),
            overrides=replaced(own, settings),
        )

    def worker_config(self, run: Run) -> WorkerConfig:
        """Return the configuration sent to each worker."""
        return WorkerConfig(
            queue=self.queue_url,
            run_id=run.id,
            worker_id="",
            scraper=self.reference,
            overrides=self.overrides,
            lease=min(self.scraper.settings.lease, LEASE),
            at_most_once=self.scraper.has_at_most_once,
            concurrency=self.concurrency,
            batch=self.batch,
            memory=self.memory,
            steps=self.steps or list(self.scraper.steps),
            partitions=self.partitions if self.sharing is None else None,
            sharing=self.sharing,
            log_level=self.logs.level if self.logs else Level.WARNING if self.reports_warnings else Level.OFF,
            measure=self.metrics is not None,
            trace=self.trace,
            listening=self.listening,
            queue_option=option_text(self.queue_url),
        )

    @property
    def secrets(self) -> list[str]:
        """What must not be shown: of the queue's address, the settings and the environment."""
        return all_secrets(self.queue_url, self.scraper.settings, os.environ)

    @property
    def sharing(self) -> PartitionRole | None:
        """How its workers share the partitions by a plan; None without a plan."""
        word = self.partitions[0] if self.partitions and len(self.partitions) == 1 else None
        if word not in list(PartitionMode):
            return None
        is_exclusive = word == PartitionMode.EXCLUSIVE
        return PartitionRole(exclusive=is_exclusive, homes=self.homes, heartbeat=self.heartbeat)

    def limits(self) -> dict[str, StepLimit]:
        """Return the time limit and maximum attempts of each step; seeds may name no step."""
        settings, found = self.scraper.settings, {}
        pause = settings.pause[1] if settings.pause else ZERO
        for name, step in self.scraper.steps.items():
            span = step.lease or settings.lease
            # robots.txt, a login and redirects each get the same timeout as the page.
            whole = FETCHES_PER_TASK * (step.timeout or settings.timeout) + span + pause
            found[name] = StepLimit(
                span, self.scraper.max_attempts(step), whole, self.scraper.at_most_once(step)
            )
        return {SEED_STEP: found[self.scraper.first.name]} | found
