"""Simulates the nightly runs of a shop's scraper: what its items are, and how they are judged."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from shoal.core.model import Counts, RunState, StoredItem
from shoal.core.run_outcome import EndedRun, judge
from shoal.fleet.quality.differences import differences
from shoal.fleet.quality.profile import BATCH, StepProfiler
from shoal.fleet.quality.records import QualityRecord, RunMark, RunProfile, baseline_of
from shoal.fleet.quality.rules import broken_rules
from shoal.scrape.settings.expect import Expectations, read_expect

FIRST_NIGHT = datetime(2026, 1, 1, 2, tzinfo=UTC)
BRANDS = [f"Brand {letter}" for letter in "ABCDEFGHIJKL"]
Item = dict[str, Any]
Change = Callable[[list[Item | None], random.Random], list[Item | None]]


def product(number: int, rng: random.Random) -> Item:
    """Return one product of the shop."""
    price = round(rng.lognormvariate(3.5, 0.8), 2)
    item = {
        "sku": f"AB-{number:05d}",
        "name": f"{rng.choice(BRANDS)} article {number}",
        "brand": rng.choice(BRANDS),
        "price": price,
        "old_price": round(price * 1.25, 2) if rng.random() < 0.15 else None,
        "shown_price": f"£{price:,.2f}",
        "currency": "GBP",
        "stock": rng.choices(["in stock", "few left", "sold out"], [80, 15, 5])[0],
        "rating": rng.choices([None, 1, 2, 3, 4, 5], [20, 2, 5, 15, 30, 28])[0],
        "description": " ".join(["solid", "light", "useful", "new"] * rng.randint(4, 30)),
        "images": [f"https://img.example/{number}/{n}.jpg" for n in range(rng.randint(1, 4))],
        "seller": {"name": rng.choice(BRANDS), "country": rng.choice(["GB", "DE", "FR"])},
        "updated": f"2026-0{rng.randint(1, 9)}-{rng.randint(10, 28)}",
    }
    return item | {"is_sold_out": item["stock"] == "sold out"}


class Shop:
    """A shop whose catalogue changes a little every night, and the records of the runs over it."""

    def __init__(self, size: int = 400, seed: int = 1, expect: Any = True) -> None:
        self.rng = random.Random(seed)
        self.expect: Expectations = read_expect("expect", expect)
        self._next = size
        self.catalogue = [product(number, self.rng) for number in range(size)]
        self.records: list[QualityRecord] = []

    def churn(self, share: float = 0.05) -> None:
        """Replace some products, reprice others, and let their number drift."""
        count = round(share * len(self.catalogue))
        for place in self.rng.sample(range(len(self.catalogue)), count):
            self._next += 1
            self.catalogue[place] = product(self._next, self.rng)
        for item in self.rng.sample(self.catalogue, count):
            item["price"] = round(item["price"] * self.rng.uniform(0.8, 1.2), 2)
        drift = self.rng.randint(-count // 2, count // 2)
        if drift < 0:
            del self.catalogue[drift:]
        for _ in range(max(drift, 0)):
            self._next += 1
            self.catalogue.append(product(self._next, self.rng))

    def night(self, change: Change | None = None, *, dead: int = 0, blocked: int = 0) -> QualityRecord:
        """Scrape the shop as it is tonight, after a change of its pages; a page may have no item."""
        self.churn()
        pages: list[Item | None] = [dict(item) for item in self.catalogue]
        pages = [None if self.rng.random() < 0.01 else page for page in pages]
        if change:
            pages = change(pages, self.rng)
        number = len(self.records)
        profiler, at = StepProfiler("product", self.expect.rules), FIRST_NIGHT + timedelta(days=number)
        items = [
            StoredItem(id=id, task_id=str(id), url=None, step="product", data=page, stored_at=at)
            for id, page in enumerate(pages)
            if page is not None
        ]
        for start in range(0, len(items), BATCH):
            profiler.add(items[start : start + BATCH])
        counts = Counts(completed=len(pages) + 5, items=len(items), dead=dead)
        profile = RunProfile(
            run_id=f"night-{number}",
            started_at=at,
            items=len(items),
            completed=counts.completed,
            dead=dead,
            blocked=blocked,
            steps={
                "product": profiler.profile(Counts(completed=len(pages), items=len(items))),
                "listing": StepProfiler("listing").profile(Counts(completed=5)),
            },
        )
        self.records.append(self._judge(profile, counts, lambda step, *what: profiler.example(*what)))
        return self.records[-1]

    def _judge(self, profile: RunProfile, counts: Counts, example: Callable[..., Any]) -> QualityRecord:
        baseline = baseline_of(self.records[::-1], profile)
        findings = broken_rules(self.expect.rules, profile, baseline, example)
        if self.expect.defaults != "off":
            findings += differences(profile, baseline, example, strict=self.expect.defaults == "strict")
        ended = EndedRun(
            state=RunState.RUNNING,
            counts=counts,
            blocked=profile.blocked,
            expects_items=bool(baseline),
            findings=findings,
        )
        verdict = judge(ended)
        assert verdict
        mark = RunMark(tasks=0, completed=0, remaining=0, items=0)
        return QualityRecord(
            mark=mark,
            verdict=verdict,
            findings=findings,
            profile=profile,
            compared_with=baseline.run_ids,
        )


def all_items(change: Callable[[Item, random.Random], Any]) -> Change:
    """Return a change of every item: a function that edits it, or returns what is in its place."""

    def apply(pages: list[Item | None], rng: random.Random) -> list[Item | None]:
        for page in pages:
            if page is not None:
                change(page, rng)
        return pages

    return apply


def said(record: QualityRecord) -> Sequence[tuple[str, str | None]]:
    """Return the kind and the field of all findings."""
    return [(finding.kind, finding.field) for finding in record.findings]
