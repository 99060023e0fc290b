"""What `shoal run` says before its first page: an unfinished earlier run, links that no step yields."""

from collections.abc import AsyncIterator

from shoal.core.model import Run, RunState
from shoal.core.values import counted
from shoal.fleet.command_hints import command_for_job, command_to_resume
from shoal.fleet.job import Job
from shoal.fleet.status.at_work import has_workers
from shoal.queue.contract import Queue
from shoal.scrape.step import discarded_calls


async def start_notices(queue: "Queue", job: "Job", run: "Run", *, is_new: bool) -> AsyncIterator[str]:
    """Yield each notice with the command to type."""
    if is_new and (earlier := await _unfinished_before(queue, run)):
        left = counted((await queue.stats(earlier.id)).remaining, "task")
        again = await command_to_resume(queue, job.queue_url, earlier)
        yield (
            f"Run {earlier.id} of {run.scraper} has {left} left, and no worker. This is a new run; "
            f"to continue that one, run: {again}"
        )
    for step in job.scraper.steps.values():
        for message in discarded_calls(step.name, step.function):
            yield f"Warning: {message}"
    others = [name for name in job.scraper.steps if job.steps and name not in job.steps]
    if others:
        elsewhere = command_for_job(
            job, "shoal", "work", job.name, "--run", run.id, "--steps", ",".join(others)
        )
        yield (
            f"With --steps {','.join(job.steps or ())}, tasks of {' and '.join(others)} wait for other "
            "workers. "
            f"To start one, run: {elsewhere}"
        )


async def _unfinished_before(queue: "Queue", run: "Run") -> "Run | None":
    """Return the newest earlier run of the scraper if it has tasks left, and no worker works on them."""
    earlier = next(
        (one for one in await queue.runs() if one.scraper == run.scraper and one.id != run.id), None
    )
    if earlier is None or earlier.state is not RunState.RUNNING or await has_workers(queue, earlier.id):
        return None
    return earlier if (await queue.stats(earlier.id)).remaining else None
