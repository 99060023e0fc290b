"""Crawls of the project of these tests, with plain Scrapy and on Shoal."""

import json
import os
import subprocess
import sys
from collections import Counter
from itertools import count
from pathlib import Path

PROJECT = Path(__file__).parent / "project"
_numbers = count()


class Crawls:
    """Runs spiders on one site, each run with a name of its own."""

    def __init__(self, site, folder):
        self.site, self.folder = site, folder

    def plain(self, spider, *options):
        """Return the items of plain Scrapy, which are the same for all tests."""
        known = self.site.plain_items
        if (spider, *options) not in known:
            out = self.folder / f"plain-{spider}.jsonl"
            command = ["-m", "scrapy", "crawl", spider, "-O", f"{out}:jsonl", *options]
            self.run(command, cwd=PROJECT)
            known[spider, *options] = read_items(out)
        return known[spider, *options]

    def on_shoal(self, reference, queue, *options, code=0):
        """Return the items of a run on Shoal, and what it printed."""
        out = self.folder / f"shoal-{next(_numbers)}.jsonl"
        command = ["-m", "shoal", "run", reference, "--queue", queue, "--out", str(out), *options]
        shown = self.run(command, cwd=self.folder, code=code)
        return read_items(out), shown

    def run(self, command, *, cwd, name="", code=0):
        """Run a command to its end, and return what it printed."""
        done = subprocess.run(
            [sys.executable, *command],
            cwd=cwd,
            env=self.environment(name),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=110,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def environment(self, name=""):
        """Return the environment of a crawl; the site knows its requests by this name."""
        own = {"SITE": self.site.url, "RUN": name or f"run{next(_numbers)}"}
        return {**os.environ, **own, "FILES_STORE": str(self.folder / f"files {own['RUN']}")}


def read_items(file):
    """Return the items of a file, whatever their order."""
    return Counter(json.dumps(json.loads(line), sort_keys=True) for line in file.read_text().splitlines())
