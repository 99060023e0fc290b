"""Runs the demo site in its own process, so that a scraper can be measured separately."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Self

from shoal.demo.sections.practice import PLACES, practice_sections
from shoal.demo.site import PRODUCTS, SEED, SHOPS, DemoSite

TIMEOUT = timedelta(seconds=30)  # for the process to start, and again to stop


class SiteProcess:
    """The site in another process, running while the context is open; `log` is set when it closes."""

    def __init__(self, shops: int = SHOPS, products: int = PRODUCTS, *, seed: int = SEED) -> None:
        self._options = ["--shops", str(shops), "--products", str(products), "--seed", str(seed)]
        self.seeds: list[str] = []
        self.hosts: list[str] = []
        self.products: frozenset[str] = frozenset()
        self.rejects: frozenset[str] = frozenset()
        self.log: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """The id of the server process."""
        return self._process.pid

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "shoal.demo.site", "--json", *self._options]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C in the terminal goes to the scraper, which then closes the site.
            start_new_session=True,
        )
        data = self._read_line()
        self.seeds, self.hosts = data["seeds"], data["hosts"]
        self.products, self.rejects = frozenset(data["products"]), frozenset(data["rejects"])
        return self

    def __exit__(self, *_: object) -> None:
        try:
            output = self._process.communicate(timeout=TIMEOUT.total_seconds())[0]
            self.log = json.loads(output or b"{}")
        finally:
            self._process.kill()
            self._process.wait()

    def _read_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(TIMEOUT.total_seconds())
            raise RuntimeError("The site did not start. Run this to see why: python -m shoal.demo.site")
        found: dict[str, Any] = json.loads(line)
        return found


async def serve_practice(port: int, products: int, say: Callable[[str], object]) -> None:
    """Serve one shop with all sections until a signal arrives; raises OSError if the port is in use."""
    sections = practice_sections(products, SEED)
    async with DemoSite(1, products, port=port, sections=sections) as site:
        origin = site.seeds[0].rstrip("/")
        width = max(map(len, PLACES))
        for path, text in PLACES.items():
            say(f"{origin}{path:<{width}}  {text}")
        say("Press Ctrl-C to stop.")
        await _stop_event().wait()
    say(f"Stopped after {site.log.requests:,} requests.")


def main() -> int:
    """Serve the site until stdin closes or a signal arrives."""
    options = _options()
    try:
        asyncio.run(_serve(options))
    except BrokenPipeError:  # the parent is gone and does not want the log
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        print(f"error: The site cannot start: {error.strerror}. Run it with --port 0", file=sys.stderr)
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    stop, loop = _stop_event(), asyncio.get_running_loop()
    async with DemoSite(options.shops, options.products, seed=options.seed, port=options.port) as site:
        _print(
            site.as_json() if options.json else "\n".join(["Serving:", *site.seeds, "Press Ctrl-C to stop."])
        )
        _on_stdin_end(lambda: loop.call_soon_threadsafe(stop.set))
        await stop.wait()
    _print(site.log.summary() if options.json else f"Stopped after {site.log.requests:,} requests.")


def _stop_event() -> asyncio.Event:
    """Return an event that a signal sets."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, stop.set)
    return stop


def _print(value: object) -> None:
    print(value if isinstance(value, str) else json.dumps(value), flush=True)


def _on_stdin_end(call: Callable[[], object]) -> None:
    def wait() -> None:
        while os.read(0, 65_536):
            pass
        call()

    threading.Thread(target=wait, daemon=True).start()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m shoal.demo.site", description=__doc__)
    parser.add_argument("--shops", type=int, default=SHOPS, help=f"number of hosts, default {SHOPS}")
    parser.add_argument(
        "--products",
        type=int,
        default=PRODUCTS,
        help=f"number of products in all shops, default {PRODUCTS:,}",
    )
    parser.add_argument("--seed", type=int, default=SEED, help="seed of the product generator")
    parser.add_argument("--port", type=int, default=0, help="port of the first shop; 0 uses free ports")
    parser.add_argument(
        "--json", action="store_true", help="print JSON: a line of site data at the start, the log at the end"
    )
    return parser.parse_args()
