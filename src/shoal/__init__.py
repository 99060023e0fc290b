"""Shoal: scraping at scale from Python."""

from shoal.core.model import Task
from shoal.queue.open import open_queue

__all__ = ["Task", "open_queue"]
