"""Finding the run or the dead letter that a name means."""

from types import SimpleNamespace

import pytest

from shoal.core.errors import InvalidSetting, UnknownLetter, UnknownRun
from shoal.fleet.status.find import MAX_SHOWN, find_letter, find_run, whole_ids
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


LETTERS = [
    "abcd" + "0" * 24 + "1234",
    "abce" + "0" * 28,
    *(f"ffff{n}" + "0" * 27 for n in range(MAX_SHOWN + 2)),
]


class Letters:
    def __init__(self):
        self.lists = 0  # of all letters

    async def dead(self, run_id, *, ids=None):
        self.lists += ids is None
        for one in LETTERS:
            if ids is None or one in ids:
                yield SimpleNamespace(id=one)


async def test_an_id_in_full_is_not_looked_for_in_the_list():
    queue = Letters()
    assert (await find_letter(queue, "run", LETTERS[0])).id == LETTERS[0]
    assert await whole_ids(queue, "run", [LETTERS[1], "9" * 32, LETTERS[1]]) == [LETTERS[1], "9" * 32]
    assert queue.lists == 0


async def test_several_starts_and_ends_are_found_in_one_pass_over_the_list():
    queue = Letters()
    assert await whole_ids(queue, "run", ["abcd", "ABCE0", "ffff3", "0001234"]) == [
        LETTERS[0],
        LETTERS[1],
        LETTERS[5],
    ]
    assert queue.lists == 1


@pytest.mark.parametrize(
    ("start", "error", "text"),
    [
        ("abc", InvalidSetting, "ID must have at least 4 characters of an id, got 'abc'"),
        ("", InvalidSetting, "must have at least 4"),
        ("ffff", InvalidSetting, f"'ffff' is the start or end of 7 ids: {', '.join(LETTERS[2:7])}, …"),
        ("123456", UnknownLetter, "Run run has no dead letter '123456'. List them with"),
        ("0000", InvalidSetting, "'0000' is the start or end of 8 ids"),
        ("nonsense", UnknownLetter, "has no dead letter 'nonsense'"),
    ],
)
async def test_a_start_that_names_no_letter_or_several_is_refused(start, error, text):
    for verb in (find_letter(Letters(), "run", start), whole_ids(Letters(), "run", [LETTERS[0], start])):
        with pytest.raises(error) as raised:
            await verb
        assert text in str(raised.value)
