"""Finding the run that a name means."""

import pytest

from shoal.core.errors import InvalidSetting, UnknownRun
from shoal.fleet.status.find import find_run
from tests.unit.builders import make_run

IDS = {
    "20261116_120002_ab12": "books",
    "20261116_120001_cd34": "news",
    "nightly": "books",
    "nightly-2": "books",
}


class Queue:
    """A queue with these runs, the newest first."""

    def __init__(self, ids=IDS):
        self._runs = [make_run(id=name, scraper=scraper) for name, scraper in ids.items()]

    async def run(self, run_id):
        for run in self._runs:
            if run.id == run_id:
                return run
        raise UnknownRun(run_id)

    async def runs(self):
        return self._runs


@pytest.mark.parametrize(
    ("name", "found"),
    [
        (None, "20261116_120002_ab12"),
        ("newest", "20261116_120002_ab12"),
        ("20261116_120001", "20261116_120001_cd34"),
        ("nightly", "nightly"),
        ("nightly-", "nightly-2"),
    ],
    ids=["no name", "newest", "a unique start", "an id that begins another", "a start of one"],
)
async def test_a_run_is_named_by_its_id_its_start_or_newest(name, found):
    assert (await find_run(Queue(), name)).id == found


async def test_newest_and_starts_are_of_the_scraper_that_is_run():
    assert (await find_run(Queue(), "newest", scraper="news")).id == "20261116_120001_cd34"
    assert (await find_run(Queue(), "20261116", scraper="news")).id == "20261116_120001_cd34"


async def test_a_start_of_several_ids_is_refused_with_the_ids():
    with pytest.raises(
        InvalidSetting, match="'2026' begins 2 ids: 20261116_120002_ab12, 20261116_120001_cd34"
    ):
        await find_run(Queue(), "2026")


@pytest.mark.parametrize("name", ["", "2025"])
async def test_a_name_of_no_run_is_unknown(name):
    with pytest.raises(UnknownRun, match="No run is called"):
        await find_run(Queue(), name)


async def test_a_usual_word_for_the_newest_run_is_answered_with_newest():
    with pytest.raises(
        UnknownRun, match=r"No run is called 'latest' in this queue\. Did you mean 'newest'\?"
    ):
        await find_run(Queue(), "latest")


async def test_an_empty_queue_has_no_newest_run():
    with pytest.raises(InvalidSetting, match=r"this queue has no runs\. Start one with: shoal run"):
        await find_run(Queue({}))
    with pytest.raises(InvalidSetting, match="this queue has no runs of 'books'"):
        await find_run(Queue({}), scraper="books")
