"""The standing run of a scraper: where the tasks and results of calls on demand are kept."""

import asyncio
import socket
from dataclasses import replace
from datetime import timedelta

from shoal.core.errors import InvalidSetting, NobodyListens
from shoal.core.model import SECOND, Run, RunSettings
from shoal.fleet.launch import Job
from shoal.fleet.metrics_server import HERE, read_address
from shoal.queue.contract import Queue
from shoal.scrape.scraper import Scraper
from shoal.worker.calls import Listed, Listening, read_listed, topic_of

ANYWHERE = f"{HERE}:0"
EVERYWHERE = ("0.0.0.0", "::")
LOOK_EVERY = 0.02  # seconds


def listening_job(job: Job, at: str = ANYWHERE, announce: str | None = None) -> Job:
    """Return a job whose workers listen: at the port that is named and those behind it, or at any."""
    host, port = read_address("--at", at)
    name = socket.gethostname() if host in EVERYWHERE else "{host}"
    address = announce or f"http://{name}:{{port}}"
    try:
        address.format(host=host, port=port)
    except (KeyError, IndexError, ValueError) as error:
        raise InvalidSetting("--announce", "may hold {host} and {port}, and no other braces") from error
    if not address.startswith(("http://", "https://")):
        raise InvalidSetting(
            "--announce", f"takes a URL such as https://here.example/{{port}}, not {address!r}"
        )
    listening = Listening(host=host, port=port, ports=job.workers, announce=address)
    return replace(job, listening=listening)


async def until_listening(
    queue: Queue, scraper: str, count: int, timeout: timedelta = 30 * SECOND
) -> list[Listed]:
    """Return those who listen, once so many have made themselves known; raises NobodyListens."""
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            while len(notes := await queue.notes(topic_of(scraper))) < count:
                await asyncio.sleep(LOOK_EVERY)
            return [read_listed(note.value) for note in notes.values()]
    except TimeoutError as error:
        raise NobodyListens(scraper) from error


def standing_run_id(scraper: str) -> str:
    """Return the id of the run that holds a scraper's calls."""
    return f"ondemand_{scraper}"


async def standing_run(queue: Queue, scraper: Scraper) -> Run:
    """Return the run that holds a scraper's calls, which is made at the first time."""
    run_id = standing_run_id(scraper.name)
    return await queue.start_run(scraper.name, settings=_standing_settings(scraper), run_id=run_id)


def _standing_settings(scraper: Scraper) -> RunSettings:
    # Who asks for a page wants it, whatever earlier runs have queued.
    return replace(scraper.run_settings(), dedup=None, dedup_steps=())


def outdated_words(run: Run, scraper: Scraper) -> str | None:
    """Return what to say where the scraper's settings are no longer those that the run was made with."""
    if run.settings == _standing_settings(scraper):
        return None
    return (
        f"Run {run.id} keeps the rate, limits and retries that it was made with, not those that "
        f"{scraper.name!r} has now. To begin anew, results included: shoal purge {run.id}"
    )
