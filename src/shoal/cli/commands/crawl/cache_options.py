"""The options of `shoal run` for caching, recording, replaying and recrawling."""

from dataclasses import replace
from pathlib import Path

from shoal.core.errors import InvalidSetting
from shoal.export.archive.warc import warcio
from shoal.export.archive.warc_read import WarcArchive
from shoal.fleet.sources.seeds import Seeds
from shoal.scrape.settings.cache import read_replay
from shoal.scrape.settings.scraper import MAX_BODY


def as_changes(
    cache: str | None, warc: str | None, replay: str | None, again: str | None, *, resume: bool
) -> list[str]:
    """Return the options as scraper settings; raises InvalidSetting for options that exclude each other."""
    given = {"cache": cache, "warc": warc, "replay": replay, "again": again}
    if replay and (cache or warc):
        raise InvalidSetting(
            "--replay", "makes no network requests to cache or record: leave out --cache and --warc"
        )
    if replay and again:
        raise InvalidSetting("--again", "requests every page again, and --replay makes no network requests")
    if warc and Path(warc).exists() and not resume:
        raise InvalidSetting("--warc", f"file {warc} already exists. Choose another name, or delete it")
    if warc or replay:
        warcio("archiveiterator")  # which may not be installed
    return [f"{key}={value}" for key, value in given.items() if value is not None]


def replayed_seeds(seeds: "Seeds", replay: str | None) -> "Seeds":
    """Return the seeds of a replay: by default the first recorded page."""
    if replay is None:
        return seeds
    for kind, _, _ in seeds.by_kind():
        option = f"--{kind}" if kind in ("sitemap", "feed") else "--source"
        raise InvalidSetting(option, "needs the network, and --replay makes no network requests. Use --url")
    if seeds:
        return seeds

    first = WarcArchive(read_replay("--replay", replay), max_body=MAX_BODY).first
    return replace(seeds, urls=[first] if first else [])
