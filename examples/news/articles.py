"""What the papers publish: for each paper the same articles in every response."""

import random
from typing import Any, NamedTuple

PAPERS = {"herald": 8831, "courier": 8832, "tribune": 8833}
ARCHIVE, BREAKING, LIVE, WEATHER = 60, 12, 8, 5  # articles of each paper
SUBJECTS = ("harbour", "budget", "bridge", "election", "orchestra", "storm", "football", "museum")
VERBS = ("opens", "delays", "wins", "repairs", "surprises", "loses", "plans")
SECTIONS = {"archive": ARCHIVE, "breaking": BREAKING, "live": LIVE, "weather": WEATHER}


class Article(NamedTuple):
    """One article; its section and number are its address."""

    paper: str
    section: str
    number: int

    @property
    def path(self) -> str:
        return f"/{self.section}/{self.number}"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{PAPERS[self.paper]}{self.path}"

    @property
    def title(self) -> str:
        rng = random.Random(f"{self.paper}{self.path}")
        return (
            f"{rng.choice(SUBJECTS).title()} {rng.choice(VERBS)} {rng.choice(SUBJECTS)}, part {self.number}"
        )

    @property
    def published(self) -> str:
        """The date; later numbers are newer."""
        return f"2026-02-{1 + self.number % 28:02d}T08:00:00+00:00"

    def item(self) -> dict[str, Any]:
        """Return what a scraper makes of it."""
        found = {"paper": self.paper, "section": self.section, "title": self.title}
        return {**found, "published": self.published} if self.section == "breaking" else found


def articles(paper: str, section: str) -> list[Article]:
    """Return the articles of a section."""
    return [Article(paper, section, number) for number in range(1, SECTIONS[section] + 1)]
