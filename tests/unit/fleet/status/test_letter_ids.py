"""A dead letter is named by its id, or by a start or an end of it that no other letter has."""

from types import SimpleNamespace

import pytest

from shoal.core.errors import InvalidSetting, UnknownLetter
from shoal.fleet.status.letter_ids import MAX_SHOWN, find_letter, whole_ids

IDS = ["abcd" + "0" * 24 + "1234", "abce" + "0" * 28, *(f"ffff{n}" + "0" * 27 for n in range(MAX_SHOWN + 2))]


class Letters:
    def __init__(self):
        self.lists = 0  # of all letters

    async def dead(self, run_id, *, ids=None):
        self.lists += ids is None
        for one in IDS:
            if ids is None or one in ids:
                yield SimpleNamespace(id=one)


async def test_an_id_in_full_is_not_looked_for_in_the_list():
    queue = Letters()
    assert (await find_letter(queue, "run", IDS[0])).id == IDS[0]
    assert await whole_ids(queue, "run", [IDS[1], "9" * 32, IDS[1]]) == [IDS[1], "9" * 32]
    assert queue.lists == 0


async def test_several_starts_and_ends_are_found_in_one_pass_over_the_list():
    queue = Letters()
    assert await whole_ids(queue, "run", ["abcd", "ABCE0", "ffff3", "0001234"]) == [IDS[0], IDS[1], IDS[5]]
    assert queue.lists == 1


@pytest.mark.parametrize(
    ("start", "error", "text"),
    [
        ("abc", InvalidSetting, "ID must have at least 4 characters of an id, got 'abc'"),
        ("", InvalidSetting, "must have at least 4"),
        ("ffff", InvalidSetting, f"'ffff' is the start or end of 7 ids: {', '.join(IDS[2:7])}, …"),
        ("123456", UnknownLetter, "Run run has no dead letter '123456'. List them with"),
        ("0000", InvalidSetting, "'0000' is the start or end of 8 ids"),
        ("nonsense", UnknownLetter, "has no dead letter 'nonsense'"),
    ],
)
async def test_a_start_that_names_no_letter_or_several_is_refused(start, error, text):
    for verb in (find_letter(Letters(), "run", start), whole_ids(Letters(), "run", [IDS[0], start])):
        with pytest.raises(error) as raised:
            await verb
        assert text in str(raised.value)
