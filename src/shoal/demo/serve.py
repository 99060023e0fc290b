"""The site in a process of its own, so that whoever visits it is measured apart."""

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any, Self

from shoal.demo.site import PRODUCTS, SEED, SHOPS, Site

PATIENCE = 30.0  # seconds for the process to start, and again to end


class SiteProcess:
    """The site in another process, open while the context lasts; `log` is there once it has closed."""

    def __init__(self, shops: int = SHOPS, products: int = PRODUCTS, *, seed: int = SEED) -> None:
        self._options = ["--shops", str(shops), "--products", str(products), "--seed", str(seed)]
        self.seeds: list[str] = []
        self.hosts: list[str] = []
        self.products: frozenset[str] = frozenset()
        self.rejects: frozenset[str] = frozenset()
        self.log: dict[str, Any] = {}

    @property
    def pid(self) -> int:
        """The process that serves."""
        return self._process.pid

    def __enter__(self) -> Self:
        command = [sys.executable, "-m", "shoal.demo.site", "--json", *self._options]
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # Ctrl-C in the terminal is for the visitor, who then closes the site.
            start_new_session=True,
        )
        facts = self._read_line()
        self.seeds, self.hosts = facts["seeds"], facts["hosts"]
        self.products, self.rejects = frozenset(facts["products"]), frozenset(facts["rejects"])
        return self

    def __exit__(self, *_: object) -> None:
        try:
            said = self._process.communicate(timeout=PATIENCE)[0]
            self.log = json.loads(said or b"{}")
        finally:
            self._process.kill()
            self._process.wait()

    def _read_line(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            self._process.wait(PATIENCE)
            raise RuntimeError("The site did not start. Run this to see why: python -m shoal.demo.site")
        found: dict[str, Any] = json.loads(line)
        return found


def main() -> int:
    """Open the site until stdin closes or a signal comes."""
    options = _options()
    try:
        asyncio.run(_serve(options))
    except BrokenPipeError:  # the visitor is gone, and does not want the log
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    except OSError as error:
        print(f"error: the site cannot open: {error.strerror}. Run it with --port 0", file=sys.stderr)
        return 1
    return 0


async def _serve(options: argparse.Namespace) -> None:
    closing = asyncio.Event()
    loop = asyncio.get_running_loop()
    for one in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(one, closing.set)
    async with Site(options.shops, options.products, seed=options.seed, port=options.port) as site:
        _show(site.facts() if options.json else "\n".join(["Open: ", *site.seeds, "Close with Ctrl-C."]))
        _when_stdin_ends(lambda: loop.call_soon_threadsafe(closing.set))
        await closing.wait()
    _show(site.log.summary() if options.json else f"Closed after {site.log.requests:,} requests.")


def _show(what: object) -> None:
    print(what if isinstance(what, str) else json.dumps(what), flush=True)


def _when_stdin_ends(call: Callable[[], object]) -> None:
    def wait() -> None:
        while os.read(0, 65_536):
            pass
        call()

    threading.Thread(target=wait, daemon=True).start()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m shoal.demo.site", description=__doc__)
    parser.add_argument("--shops", type=int, default=SHOPS, help=f"how many hosts, default {SHOPS}")
    parser.add_argument("--products", type=int, default=PRODUCTS, help=f"in all shops, default {PRODUCTS:,}")
    parser.add_argument("--seed", type=int, default=SEED, help="another seed makes other products")
    parser.add_argument("--port", type=int, default=0, help="of the first shop; 0 takes free ones")
    parser.add_argument("--json", action="store_true", help="facts first, the log last, a line each")
    return parser.parse_args()
