"""What a package needs to add queues, exporters, sources, fetchers, commands and loaders to Shoal."""

from shoal.core.errors import FetchError, InvalidSetting
from shoal.core.http import Headers, Request, Response
from shoal.core.model import StoredItem, Task
from shoal.discover.source import OpenSource, SourceOptions
from shoal.export.contract import Exporter, ExportOptions, Writer
from shoal.export.target import OutputTarget
from shoal.fetch.contract import Fetcher, FetcherOptions, OpenFetcher
from shoal.queue.contract import OpenQueue, Queue
from shoal.scrape.load import ScraperLoader

__all__ = [
    "ExportOptions",
    "Exporter",
    "FetchError",
    "Fetcher",
    "FetcherOptions",
    "Headers",
    "InvalidSetting",
    "OpenFetcher",
    "OpenQueue",
    "OpenSource",
    "OutputTarget",
    "Queue",
    "Request",
    "Response",
    "ScraperLoader",
    "SourceOptions",
    "StoredItem",
    "Task",
    "Writer",
]
