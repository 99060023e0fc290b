"""Starts a run for a program: creates or resumes it, enqueues its tasks and starts its workers."""

from collections.abc import Generator
from contextlib import AsyncExitStack, contextmanager
from typing import NamedTuple

from shoal.core.commands import shoal_command
from shoal.core.errors import ShoalError
from shoal.core.model import Run
from shoal.discover.rejects import RejectFile
from shoal.discover.routing import Routes
from shoal.fleet.handle import RunHandle
from shoal.fleet.job import Job
from shoal.fleet.partitions.membership import admit
from shoal.fleet.run.app_workers import AppWorkers
from shoal.fleet.run.args import bind_args
from shoal.fleet.run.enqueue import (
    OnInvalid,
    Refusals,
    enqueue_all,
    note_hosts_to_allow,
    open_enqueuer,
)
from shoal.fleet.run.launch import lock_of
from shoal.fleet.run.settings import find_existing, open_job
from shoal.fleet.sources.declared import seeds_left
from shoal.fleet.sources.recrawl import recrawl_tasks
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue


class StartedRun(NamedTuple):
    """A run whose tasks are enqueued, and its workers here, if any were started."""

    handle: RunHandle
    workers: AppWorkers | None


async def start_run(
    queue: Queue,
    job: Job,
    seeds: Seeds,
    routes: Routes,
    *,
    run_id: str | None,
    resume: bool,
    on_invalid: OnInvalid,
    rejects: str | None,
    workers: AsyncExitStack | None,
) -> StartedRun:
    """Create or resume a run and enqueue its tasks; its workers start here and end with the stack `workers`.

    Everything that can be refused is refused before the run is created.
    """
    async with AsyncExitStack() as stack:
        lock = None
        if workers is not None:
            lock = await stack.enter_async_context(lock_of(queue, job, run_id))
        refusals = Refusals(file=stack.enter_context(RejectFile(rejects)) if rejects else None)
        if existing := await find_existing(queue, job, run_id, resume=resume):
            run_id = existing.id
            seeds = await seeds_left(queue, run_id, seeds)
        job = await bind_args(queue, job, run_id)  # the declared seeds may read them
        enqueuer = await stack.enter_async_context(
            open_enqueuer(
                queue, job.scraper, seeds, routes, on_invalid=on_invalid, on_refusal=refusals.record
            )
        )
        await enqueuer.begin(strict=on_invalid == "raise")
        opened = await open_job(queue, job, run_id=run_id, resume=resume)
        job, run = opened.job, opened.run
        with _add_run_to_errors(run):
            known = await recrawl_tasks(queue, job.scraper, but=run.id)
            report = await enqueue_all(queue, run, enqueuer, refusals, known)
            started = None
            if lock is not None and workers is not None:
                await lock.name_run(run.id)
                await admit(queue, run.id, job.sharing)
                started = AppWorkers(queue, run, job, lock)
                await workers.enter_async_context(started)
    check = started.check if started else None
    private = await note_hosts_to_allow(queue, run, job.scraper.settings)
    handle = RunHandle(queue, run, report, routes, lambda run: job, check, private=private)
    return StartedRun(handle, started)


@contextmanager
def _add_run_to_errors(run: Run) -> Generator[None]:
    """Add the id of the new run to an error raised inside the block."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ShoalError) and not getattr(error, "run_id", None):
            vars(error)["run_id"] = run.id
        error.add_note(
            f"Run {run.id} was created. Resume it: run_id={run.id!r}; "
            f"or delete it: {shoal_command(f'purge {run.id}')}"
        )
        raise
