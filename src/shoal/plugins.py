"""What a package needs to add queues, exporters, sources, fetchers, commands, loaders and notifiers."""

from shoal.core.errors import FetchError, InvalidSetting
from shoal.core.http import Headers, Request, Response
from shoal.core.model import StoredItem, Task
from shoal.core.notifications import Notification
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
    "Notification",
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
