"""A person at a terminal who has secrets everywhere, and everything that is written while they work."""

import asyncio
import os
import signal
import socket
from asyncio.subprocess import Process
from collections.abc import Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from pathlib import Path

from tests.integration.engine.origin import Answer
from tests.integration.engine.shell import Typed, start, typed
from tests.integration.secrets.canaries import Canaries, files

SCRAPER = """
import os
from shoal import Page, Scraper

HEADERS = {{
    "Authorization": "Bearer {authorization}",
    "Cookie": "visitor={cookie}; theme=dark",
    "X-Api-Key": "{api_key}",
    "X-Shop-Secret": "{custom_header}",
}}
shop = Scraper("shop", rate=None, robots=False, retries=0, headers=HEADERS, allow_private="127.0.0.0/8")

@shop.login
async def login(session):
    form = {{"user": "me", "password": "{login}"}}
    page = await session.post("http://" + session.host + "/login", form=form)
    if "welcome" not in page.text("title"):
        raise ValueError(f"no login with {{form}}: {{dict(page.headers)}}")

@shop.step
async def page(page: Page):
    if page.url.partition("?")[0].endswith("/raise"):
        shown = f"{{HEADERS}}, got {{dict(page.headers)}}: {{page!r}} {{page.task}}"
        raise ValueError(f"asked {{page.url}} with {{shown}}")
    if page.url.endswith("/die"):
        os._exit(7)
    yield {{"title": page.text("title")}}
"""
DEBUG = ["--log-level", "debug"]
LONGEST = 60.0  # seconds that anything may take


class Scene:
    """A folder, an environment, and what was said and written in them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.canaries = folder, Canaries()
        self.written: dict[str, bytes] = {}
        self._given: list[Path] = []
        self._numbers = count(1)
        self.environment = {
            "SHOAL_SECRET": self.canaries["shared_secret"],
            "SHOP_TOKENS": self.canaries["token_of_environment"],
            "AWS_SECRET_ACCESS_KEY": self.canaries["of_somebody_else"],
            "OTEL_TRACES_EXPORTER": "console",
            "PYTHONDONTWRITEBYTECODE": "1",  # a scraper that was compiled is its owner's own text
            "OTEL_EXPORTER_OTLP_HEADERS": f"api-key={self.canaries['otlp']}",
        }
        words = ("authorization", "cookie", "api_key", "custom_header", "login")
        self.give("shop.py", SCRAPER.format(**{word: self.canaries[word] for word in words}))
        self.give(".env", f"SHOP_PASSWORD={self.canaries['dotenv']}\n")

    def give(self, name: str, text: str) -> Path:
        """Write a file as its owner would; it is not searched."""
        path = self.folder / name
        path.write_text(text)
        self._given.append(path)
        return path

    def site(self, path: str) -> Answer:
        """Answer as a host that sets a cookie and has bad days."""
        bare = path.partition("?")[0]
        cookie = {"Set-Cookie": f"sid={self.canaries['set_by_host']}; Path=/"}
        if bare in ("/500", "/403", "/401"):
            return Answer(status=int(bare[1:]), headers=cookie)
        if bare == "/login":
            return Answer("<title>no</title>", headers=cookie)
        return Answer(f"<title>{bare}</title>", headers=cookie)

    async def type(self, *words: object, **environment: str):
        """Type a command, and keep what it says."""
        done = await typed(*words, folder=self.folder, **self.environment | environment)
        self.hear(f"{next(self._numbers)} shoal {words[0]}", done.out + done.err)
        return done

    async def type_within(self, seconds: float, *words: object, **environment: str):
        """Type a command, kill it with all it started if it does not end by itself, and keep what it says."""
        async with self.typing(*words, **environment) as saying:
            await asyncio.wait([saying], timeout=seconds)
        process, out, err = saying.result()
        return Typed(process.returncode, out.decode(), err.decode())

    @asynccontextmanager
    async def typing(self, *words: object, how: signal.Signals = signal.SIGKILL, **environment: str):
        """Have a command run within the block, end it there with all it started, and keep what it says."""
        process = await start(*words, folder=self.folder, **self.environment | environment)
        saying = asyncio.create_task(_heard(process))
        try:
            yield saying
        finally:
            if not saying.done():
                _end(process.pid, how)
            _, out, err = await asyncio.wait_for(saying, LONGEST)
            self.hear(f"{next(self._numbers)} shoal {words[0]}", out + err)

    def hear(self, place: str, text: str | bytes) -> None:
        """Keep what was written somewhere."""
        self.written[place] = text.encode() if isinstance(text, str) else text

    def hits(self, *allowed: str) -> list[str]:
        """Return the secrets that were written, and where."""
        return self.canaries.hits(self.written | files(self.folder, self._given), allowed)


async def until(found: Callable[[], object], seconds: float = LONGEST) -> None:
    """Wait until something is so."""
    async with asyncio.timeout(seconds):
        while not found():
            await asyncio.sleep(0.02)


def listens(port: int) -> bool:
    """Tell whether somebody listens at a port of this machine."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


async def _heard(process: Process) -> tuple[Process, bytes, bytes]:
    return process, *await process.communicate()


def _end(group: int, how: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, how)
