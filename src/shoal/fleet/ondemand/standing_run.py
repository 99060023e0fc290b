"""The standing run of a scraper: it stores the tasks and results of on-demand calls."""

import asyncio
import socket
from datetime import timedelta

from msgspec.structs import replace

from shoal.core.commands import shoal_command
from shoal.core.errors import InvalidSetting, NobodyListens
from shoal.core.model import SECOND, Run, RunSettings
from shoal.core.values import LOOPBACK, read_host_port
from shoal.fleet.job import Job
from shoal.fleet.run.open_run import bind_args, store_args
from shoal.fleet.status.find import standing_run_id
from shoal.queue.contract import Queue, QueueAdmin, SharedNotes
from shoal.scrape.scraper import Scraper
from shoal.worker.ipc.calls import ListenerRecord, Listening, read_listener, topic_of

ANY_PORT = f"{LOOPBACK}:0"
ALL_INTERFACES = ("0.0.0.0", "::")
POLL_INTERVAL = timedelta(seconds=0.02)


def listening_job(job: Job, at: str = ANY_PORT, announce: str | None = None) -> Job:
    """Return a job whose workers listen on consecutive ports from the given one, or on any free port."""
    host, port = read_host_port("--at", at)
    name = socket.gethostname() if host in ALL_INTERFACES else "{host}"
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
    return replace(job, listening=listening, partitions=None)  # they take what they are sent


async def until_listening(
    queue: SharedNotes, scraper: str, count: int, timeout: timedelta = 30 * SECOND
) -> list[ListenerRecord]:
    """Return the listening workers, once `count` have registered; raises NobodyListens."""
    try:
        async with asyncio.timeout(timeout.total_seconds()):
            while len(notes := await queue.notes(topic_of(scraper))) < count:
                await asyncio.sleep(POLL_INTERVAL.total_seconds())
            return [read_listener(note.value) for note in notes.values()]
    except TimeoutError as error:
        raise NobodyListens(scraper) from error


async def standing_run(queue: QueueAdmin, scraper: Scraper) -> Run:
    """Return the run for a scraper's calls; the first call creates it."""
    run_id = standing_run_id(scraper.name)
    return await queue.start_run(scraper.name, settings=_standing_settings(scraper), run_id=run_id)


async def bound_standing_run(queue: Queue, job: Job) -> Run:
    """Return the run for a scraper's on-demand calls, with its arguments stored."""
    job = await bind_args(queue, job, standing_run_id(job.scraper.name))
    run = await standing_run(queue, job.scraper)
    await store_args(queue, run, job.scraper)
    return run


def _standing_settings(scraper: Scraper) -> RunSettings:
    # A caller wants the page, whatever earlier runs have queued.
    return replace(scraper.run_settings(), dedup=None, dedup_steps=())


def outdated_notice(run: Run, scraper: Scraper) -> str | None:
    """Return a notice if the scraper's settings have changed since the run was created, else None."""
    if run.settings == _standing_settings(scraper):
        return None
    return (
        f"Run {run.id} keeps the rate, limits and retries that it was created with, not the current ones of "
        f"{scraper.name!r}. To start over and delete its results: {shoal_command(f'purge {run.id}')}"
    )
