"""Shoal: scraping at scale from Python."""

from shoal.core.model import Reject, Task
from shoal.fleet.app import connect
from shoal.queue.open import open_queue
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper

__all__ = ["Page", "Reject", "Scraper", "Task", "connect", "open_queue"]
