"""The options of `shoal run` for caching, recording, playing back and recrawling."""

from collections.abc import Mapping
from pathlib import Path

from msgspec.structs import replace

from shoal.core.errors import InvalidSetting
from shoal.fleet.sources.seeds import Seeds
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
        from shoal.export.archive.warc import warcio

        warcio("archiveiterator")  # which may not be installed


def playback_seeds(seeds: "Seeds", playback: str | None) -> "Seeds":
    """Return the seeds of a playback: by default the first recorded page."""
    if playback is None:
        return seeds
    for kind, _, _ in seeds.by_kind():
        option = f"--{kind}" if kind in ("sitemap", "feed") else "--source"
        raise InvalidSetting(option, "needs the network, and --playback makes no network requests. Use --url")
    if seeds:
        return seeds
    from shoal.export.archive.warc_read import WarcArchive

    first = WarcArchive(read_playback("--playback", playback), max_body=MAX_BODY).first
    return replace(seeds, urls=[first] if first else [])
