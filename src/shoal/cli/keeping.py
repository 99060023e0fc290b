"""What `shoal run` is told about keeping exchanges: the cache, the recording, and the one to replay."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from shoal.core.errors import InvalidSetting
from shoal.export.warc import warcio

if TYPE_CHECKING:
    from shoal.fleet.launch import Job
    from shoal.fleet.seeds import Seeds
    from shoal.queue.contract import Queue


def as_changes(
    cache: str | None, warc: str | None, replay: str | None, again: str | None, *, resume: bool
) -> list[str]:
    """Return the options as settings of the scraper; raises InvalidSetting for what does not go together."""
    given = {"cache": cache, "warc": warc, "replay": replay, "again": again}
    if replay and (cache or warc):
        raise InvalidSetting(
            "--replay", "asks nobody, so that there is nothing to keep: leave --cache and --warc out"
        )
    if replay and again:
        raise InvalidSetting("--again", "asks every page whether it has changed, and --replay asks nobody")
    if warc and Path(warc).exists() and not resume:
        raise InvalidSetting(
            "--warc", f"would add to {warc}, which is there already. Name another file, or remove it"
        )
    if warc or replay:
        warcio("archiveiterator")  # which may not be installed
    return [f"{key}={value}" for key, value in given.items() if value is not None]


async def fill_again(
    queue: "Queue", job: "Job", seeds: "Seeds", rejects: str | None, run_id: str | None, invalid: str
) -> dict[str, Any]:
    """Make a run and stream its tasks in, and those of the pages that are to be visited again."""
    from shoal.cli.enqueue import fill
    from shoal.fleet.again import pages_again

    known = await pages_again(queue, job.scraper, but=run_id)
    queued = await fill(queue, job, seeds, rejects, run_id, invalid)
    if queued["run_id"] is None:
        return queued
    more = await queue.enqueue(queued["run_id"], known)
    return queued | {
        "enqueued": queued["enqueued"] + more.added,
        "duplicate": queued["duplicate"] + more.duplicate,
        "known": queued["known"] + more.known,
    }


def replayed_seeds(seeds: "Seeds", replay: str | None) -> "Seeds":
    """Return what a replay begins with: without a source, the first page that was recorded."""
    if replay is None:
        return seeds
    if seeds.sitemaps:
        raise InvalidSetting("--sitemap", "is asked over the network, and --replay asks nobody. Use --url")
    if seeds:
        return seeds
    from shoal.export.warc_read import WarcRecord
    from shoal.scrape.keeping import read_replay
    from shoal.scrape.settings import MAX_BODY

    first = WarcRecord(read_replay("--replay", replay), most=MAX_BODY).first
    return replace(seeds, urls=[first] if first else [])
