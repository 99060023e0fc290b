"""The places of workers in a cluster: `workers.count` of the project file, over all machines."""

from contextlib import AsyncExitStack, suppress

from shoal.core.errors import NoPlaceLeft, ScraperBusy
from shoal.fleet.job import Job
from shoal.fleet.lock import ScraperLock
from shoal.queue.contract import SharedNotes


async def take_places(stack: AsyncExitStack, queue: SharedNotes, job: Job, count: int) -> list[ScraperLock]:
    """Take a place for each worker of a job, as far as some of `count` are free; raises NoPlaceLeft.

    Each is a lock that the stack releases. Workers of other steps or partitions have places of their own:
    otherwise those of one stage could leave none to the next.
    """
    kind = " ".join(["worker", *sorted(job.steps or ()), *sorted(job.partitions or ())])
    places: list[ScraperLock] = []
    for number in range(1, count + 1):
        if len(places) == job.workers:
            break
        with suppress(ScraperBusy):
            place = ScraperLock(queue, job.scraper.name, [f"{kind} {number} of"])
            places.append(await stack.enter_async_context(place))
    if not places:
        raise NoPlaceLeft(job.scraper.name, count)
    return places
