"""Let a shop change from night to night, scrape it as a user does, and see what the runs say."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from tests.integration.engine.origin import Origin
from tools.bench.talk import say
from tools.nights import revisits
from tools.nights.changes import NOTICED, ORDINARY, Change
from tools.nights.runs import Store
from tools.nights.scraper import PRICES_MUST_BE_NUMBERS
from tools.nights.shop import Shop

GOOD_NIGHTS = 4
SIZE_EVERY = 10  # nights
SETTINGS = ("retries=0",)  # each attempt of a page that fails takes seconds


async def show_changes(folder: Path, size: int, only: str | None) -> int:
    """Print what is said of each change after some ordinary nights; return how many were judged wrong."""
    shop, wrong = Shop(size), 0
    async with Origin(shop) as origin:
        good = Store(folder / "good", origin.url)
        for _ in range(GOOD_NIGHTS):
            shop.pass_a_day()
            await good.night(settings=SETTINGS)
        shop.pass_a_day()
        for place, change in enumerate([*NOTICED, *ORDINARY]):
            if only is None or only in change.name:
                shop.change(change.tonight)
                wrong += not await _judge(good.copy(folder / str(place)), change)
    return wrong


async def _judge(store: Store, change: Change) -> bool:
    environment = {PRICES_MUST_BE_NUMBERS: "1"} if change.prices_must_be_numbers else {}
    done = await store.night("--json", settings=(*SETTINGS, *change.settings), environment=environment)
    row = done.row
    texts = [finding["text"] for finding in row["findings"]]
    expected = change.expected
    is_found = not texts if expected is None else any(expected in text for text in texts)
    is_right = is_found and row["outcome"] == change.outcome
    said = "<br>".join(text.split(" (compared")[0] for text in texts) or row["outcome_reason"] or "-"
    print(f"| {'' if is_right else 'WRONG: '}{change.name} | {row['outcome']} | {said} |", flush=True)
    return is_right


async def pass_nights(
    folder: Path, size: int, nights: int, seed: int, *, keep: str | None = None, queue: str = ""
) -> int:
    """Scrape on ordinary nights; print and count those on which something was found, and the store's size."""
    shop, wrong = Shop(size, seed), 0
    settings = (*SETTINGS, f"keep={keep}") if keep else SETTINGS
    async with Origin(shop) as origin:
        store = Store(folder / f"nights-{size}-{seed}", origin.url, queue)
        for night in range(nights):
            shop.pass_a_day()
            row = (await store.night("--json", settings=settings)).row
            if night % SIZE_EVERY == SIZE_EVERY - 1:
                say(f"night {night + 1}: {row['pages']:,} pages; {await store.size()}")
            if row["findings"] or row["outcome"] != "complete":
                wrong += 1
                print(
                    f"night {night}: {row['outcome']} {[one['text'] for one in row['findings']]}", flush=True
                )
    say(f"{nights} ordinary nights of {size} products: {wrong} with a finding")
    return wrong


def main() -> int:
    """Do what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tools.nights", description=__doc__)
    parser.add_argument("what", choices=("changes", "ordinary", "revisits"))
    parser.add_argument("--products", type=int, default=200, metavar="N")
    parser.add_argument("--nights", type=int, default=60, metavar="N")
    parser.add_argument("--seed", type=int, default=1, metavar="N")
    parser.add_argument("--keep", metavar="2m", help="of ordinary nights: delete runs that are older")
    parser.add_argument("--queue", default="", help="of ordinary nights; default SQLite")
    parser.add_argument("--only", metavar="TEXT", help="changes whose name contains it")
    options = parser.parse_args()
    if options.what == "revisits":
        revisits.show(options.products, options.nights)
        return 0
    with tempfile.TemporaryDirectory(prefix="shoal-nights-") as name:
        folder = Path(name)
        if options.what == "changes":
            wrong = asyncio.run(show_changes(folder, options.products, options.only))
        else:
            nights = pass_nights(
                folder,
                options.products,
                options.nights,
                options.seed,
                keep=options.keep,
                queue=options.queue,
            )
            wrong = asyncio.run(nights)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
