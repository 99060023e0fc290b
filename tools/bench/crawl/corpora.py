"""Pages that people wrote: manuals of Debian packages, downloaded when they are measured, never committed."""

import json
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.bench.crawl.site import Truth
from tools.bench.crawl.store import KEPT
from tools.bench.talk import say

READER = Path(__file__).with_name("runners") / "read_truths.py"


class CorpusMissing(Exception):
    """The pages of a corpus cannot be downloaded."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """Pages of one manual, up to some thousand; the first package that the system knows is taken."""

    name: str
    packages: Sequence[str]
    about: str


CORPORA = (
    Corpus("small", ("libboost1.74-doc", "libboost1.83-doc"), "the manual of Boost"),
    Corpus("linked", ("openjdk-17-doc", "openjdk-21-doc"), "the manual of Java's libraries"),
    Corpus("large", ("python3.11-doc", "python3.13-doc"), "the manual of Python"),
    Corpus("mixed", ("ghc-doc",), "the manual of Haskell's libraries"),
)
MAX_PAGES = 4_000


def real_pages(corpus: Corpus, python: Path) -> tuple[Path, list[Truth]]:
    """Return the folder of a corpus's pages and what they hold; downloaded if they are missing."""
    folder = KEPT / f"pages-{corpus.name}"
    facts = folder.with_suffix(".json")
    if not facts.exists():
        shutil.rmtree(folder, ignore_errors=True)
        _download(corpus, folder)
        truths = subprocess.run([python, READER, folder], check=True, capture_output=True, text=True).stdout
        facts.write_text(truths)
    return folder, [Truth(**found) for found in json.loads(facts.read_text())]


def _download(corpus: Corpus, folder: Path) -> None:
    unpacked = folder.with_name(f"{folder.name}-package")
    shutil.rmtree(unpacked, ignore_errors=True)
    unpacked.mkdir(parents=True)
    for package in corpus.packages:
        say(f"downloading {package}")
        command = ["apt-get", "-qq", "download", package]
        if subprocess.run(command, cwd=unpacked, capture_output=True, check=False).returncode == 0:
            break
    else:
        wanted = " or ".join(corpus.packages)
        raise CorpusMissing(f"The corpus '{corpus.name}' needs the Debian package {wanted}; apt-get has none")
    subprocess.run(["dpkg-deb", "-x", next(unpacked.glob("*.deb")), unpacked], check=True)
    root = unpacked / "usr/share/doc"
    files = sorted(file for file in root.rglob("*.html") if file.is_file() and not file.is_symlink())
    for file in files[:: 1 + len(files) // MAX_PAGES]:
        place = folder / file.relative_to(root)
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, place)
    shutil.rmtree(unpacked)
