"""Shoal: scraping at scale from Python."""

from shoal.core.model import Task
from shoal.queue.open import open_queue
from shoal.scrape.page import Page
from shoal.scrape.scraper import Scraper

__all__ = ["Page", "Scraper", "Task", "open_queue"]
