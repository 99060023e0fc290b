"""The manual on the disk, made once and kept."""

import json
import os
import shutil
from dataclasses import asdict
from pathlib import Path

from tools.bench.crawl.site import VERSION, Manual, Truth
from tools.bench.talk import say

KEPT = Path("build/bench-crawl")


def manual(pages: int) -> tuple[Path, list[Truth]]:
    """Return the folder of the pages and what they hold; they are written if they are not there yet."""
    folder = KEPT / f"pages-{pages}-v{VERSION}"
    facts = folder.with_suffix(".json")
    if not facts.exists():
        say(f"writing {pages:,} pages to {folder}")
        truths = _write(folder, pages)
        facts.write_text(json.dumps([asdict(truth) for truth in truths]))
    return folder, [Truth(**found) for found in json.loads(facts.read_text())]


def _write(folder: Path, pages: int) -> list[Truth]:
    shutil.rmtree(folder, ignore_errors=True)
    made = Manual(pages)
    truths = []
    for number in range(pages):
        truth, html = made.page(number)
        file = folder / truth.path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(html, encoding="utf-8")
        truths.append(truth)
    return truths


def copy(folder: Path, to: Path) -> None:
    """Copy the pages where a server of another user may read them."""
    shutil.copytree(folder, to, dirs_exist_ok=True)
    for place, _, files in os.walk(to):
        Path(place).chmod(0o755)
        for name in files:
            (Path(place) / name).chmod(0o644)
