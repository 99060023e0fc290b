"""Binds a job to the arguments of its run: those given for a new run, or those that a run has stored."""

from dataclasses import replace

from shoal.core.errors import InvalidSetting
from shoal.core.model import Run
from shoal.core.text import shorten
from shoal.fleet.job import Job
from shoal.fleet.ondemand.standing_run import standing_run
from shoal.fleet.status.find import standing_run_id
from shoal.queue.contract import Queue
from shoal.queue.run_args import stored_args, write_args
from shoal.scrape.scraper import Scraper
from shoal.scrape.settings.args import dump_args


async def bind_args(queue: Queue, job: Job, run_id: str | None) -> Job:
    """Return a job with the arguments of a run; raises InvalidSetting if one is missing or has changed.

    `run_id` is None for a new run. The arguments of a run are set when it is created.
    """
    declared = job.scraper.declared_args
    if not declared:
        return job
    stored = await stored_args(queue, run_id) if run_id else None
    if stored is None:
        return _with_args(job, declared.read(job.args))
    args = declared.restore(stored)
    before, after = dump_args(args), dump_args(declared.restore({**stored, **job.typed_args}))
    for name in job.typed_args:
        if before.get(name) != after.get(name):
            was = shorten(repr(before.get(name)), 60)
            raise InvalidSetting(
                f"argument {name!r}",
                f"of run {run_id} is {was} and cannot be changed; leave it out, or start a new run",
            )
    return _with_args(job, args)


async def bound_standing_run(queue: Queue, job: Job) -> Run:
    """Return the run for a scraper's on-demand calls, with its arguments stored."""
    job = await bind_args(queue, job, standing_run_id(job.scraper.name))
    run = await standing_run(queue, job.scraper)
    await store_args(queue, run, job.scraper)
    return run


async def store_args(queue: Queue, run: Run, scraper: Scraper, *, is_new: bool = False) -> None:
    """Store the arguments of a scraper with its run, unless an existing run has some."""
    if not scraper.declared_args or scraper.args is None:
        return
    if is_new or await stored_args(queue, run.id) is None:
        await write_args(queue, run.id, dump_args(scraper.args))


def _with_args(job: Job, args: object) -> Job:
    scraper = job.scraper.replace()
    scraper.args = args
    return replace(job, scraper=scraper)
