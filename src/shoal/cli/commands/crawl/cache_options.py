"""The options of `shoal run` for caching, recording, playing back and recrawling."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from shoal.cli.commands.crawl.enqueue import fill
from shoal.core.errors import InvalidSetting
from shoal.export.archive.warc import warcio
from shoal.export.archive.warc_read import WarcArchive
from shoal.fleet.job import Job
from shoal.fleet.sources.recrawl import recrawl_tasks
from shoal.fleet.sources.seeds import Seeds
from shoal.queue.contract import Queue
from shoal.scrape.settings.scraper import MAX_BODY
from shoal.scrape.settings.storage import read_playback


def check_settings(typed: Mapping[str, str], *, resume: bool) -> None:
    """Raise InvalidSetting for options that exclude each other, and for a recording that exists."""
    warc, playback = typed.get("warc"), typed.get("playback")
    if playback and ("cache" in typed or warc):
        raise InvalidSetting(
            "--playback", "makes no network requests to cache or record: leave out --cache and --warc"
        )
    if playback and "again" in typed:
        raise InvalidSetting("--again", "requests every page again, and --playback makes no network requests")
    if warc and Path(warc).exists() and not resume:
        raise InvalidSetting("--warc", f"file {warc} already exists. Choose another name, or delete it")
    if warc or playback:
        warcio("archiveiterator")  # which may not be installed


async def fill_again(
    queue: "Queue",
    job: "Job",
    seeds: "Seeds",
    rejects: str | None,
    run_id: str | None,
    invalid: str,
    *,
    as_json: bool = False,
) -> dict[str, Any]:
    """Create a run and stream its tasks in, including those of the pages to recrawl."""

    known = await recrawl_tasks(queue, job.scraper, but=run_id)
    queued = await fill(queue, job, seeds, rejects, run_id, invalid, as_json=as_json)
    if queued["run_id"] is None:
        return queued
    more = await queue.enqueue(queued["run_id"], known)
    return queued | {
        "enqueued": queued["enqueued"] + more.added,
        "duplicate": queued["duplicate"] + more.duplicate,
        "known": queued["known"] + more.known,
    }


def playback_seeds(seeds: "Seeds", playback: str | None) -> "Seeds":
    """Return the seeds of a playback: by default the first recorded page."""
    if playback is None:
        return seeds
    for kind, _, _ in seeds.by_kind():
        option = f"--{kind}" if kind in ("sitemap", "feed") else "--source"
        raise InvalidSetting(option, "needs the network, and --playback makes no network requests. Use --url")
    if seeds:
        return seeds

    first = WarcArchive(read_playback("--playback", playback), max_body=MAX_BODY).first
    return replace(seeds, urls=[first] if first else [])
