"""The peers, in a virtual environment of their own so that their needs and ours do not meet."""

import compileall
import hashlib
import subprocess
import sys
import venv
from pathlib import Path

import shoal
from tools.bench.crawl.store import KEPT
from tools.bench.talk import say

PINS = Path("constraints/bench-crawl.txt")
WANTED = ("scrapy", "scrapy-redis", "crawlee[parsel,sql-sqlite]", "aiohttp", "selectolax", "uvloop")
SHOWN = ("scrapy", "scrapy-redis", "crawlee", "aiohttp", "selectolax", "uvloop")


def peers_python() -> Path:
    """Return the Python that has the peers, which are installed if they are not there yet."""
    folder = KEPT / "venv"
    python = (folder / "bin" / "python").absolute()
    mark, wanted = folder / "installed", _fingerprint()
    if not mark.exists() or mark.read_text() != wanted:
        say(f"installing the peers into {folder}")
        venv.create(folder, clear=True, with_pip=True)
        pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check", "-c", str(PINS)]
        subprocess.run([*pip, *WANTED], check=True, stdout=sys.stderr)
        mark.write_text(wanted)
    # What pip has installed is compiled; Shoal lies here as it is edited.
    compileall.compile_dir(Path(shoal.__file__).parent, quiet=1)
    return python


def versions() -> dict[str, str]:
    """Return which version of each peer is pinned."""
    lines = (line.split(";")[0].strip().partition("==") for line in PINS.read_text().splitlines())
    return {name: version for name, _, version in lines if name in SHOWN}


def _fingerprint() -> str:
    facts = f"{sys.version}\n{WANTED}\n{PINS.read_text()}"
    return hashlib.sha256(facts.encode()).hexdigest()
