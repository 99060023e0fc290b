"""What a run says about itself at its end: first errors, the first reject, empty fields."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from shoal.cli.left_out import error_lines
from shoal.core.model import Counts, Stats, StoredItem
from shoal.fleet.status.findings import MAX_ITEMS, MAX_LETTERS, read_findings, sample_of


def item(number, step="book", **data):
    return StoredItem(
        id=number, task_id="t", url="https://a.example/", step=step, data=data, stored_at=datetime.now(UTC)
    )


class Queue:
    """A queue with the results of one run."""

    def __init__(self, items=(), errors=(), reasons=()):
        self._items, self._errors, self._reasons = items, errors, reasons
        self.read = 0

    async def items(self, run_id, *, step=None, after=0):
        for one in self._items:
            if step in (None, one.step):
                self.read += 1
                yield one

    async def dead(self, run_id):
        for error in self._errors:
            yield SimpleNamespace(error=error)

    async def rejects(self, run_id):
        for reason in self._reasons:
            yield SimpleNamespace(reason=reason)


async def test_the_first_error_of_each_class_is_found_in_one_line():
    errors = ["ValueError: no price\nline 2", "ValueError: other", "HttpError: 500", "Bare"]
    found = await read_findings(Queue(errors=errors), "r", Stats(dead=4))
    assert found.errors == {"ValueError": "no price", "HttpError": "500", "Bare": ""}


async def test_every_class_of_the_first_errors_is_found_and_the_summary_counts_those_that_it_does_not_show():
    errors = [f"E{n}: {'x' * 999}" for n in range(MAX_LETTERS + 9)]
    found = await read_findings(Queue(errors=errors), "r", Stats(dead=len(errors)))
    assert list(found.errors) == [f"E{n}" for n in range(MAX_LETTERS)]
    assert max(map(len, found.errors.values())) <= 200
    *shown, more = error_lines(found, shown=["E0"])
    assert [line.split(":")[0] for line in shown] == [f"First E{n}" for n in range(1, 6)]
    assert more == "Not shown here: 994 more error classes."


async def test_the_first_reject_is_found():
    found = await read_findings(Queue(reasons=["price: it is missing", "other"]), "r", Stats(rejected=2))
    assert found.reject == "price: it is missing"
    assert found.as_json()["first_reject"] == "price: it is missing"


async def test_fields_that_are_empty_in_every_item_of_a_step_are_found():
    items = [item(1, title="a", price=None, tags=[]), item(2, title="", price="  ", tags=[], author=None)]
    items += [item(3, step="shop", price=0, open=False)]
    stats = Stats(items=3, steps={"book": Counts(items=2), "shop": Counts(items=1), "page": Counts()})
    (found,) = (await read_findings(Queue(items), "r", stats)).empty
    assert (found.step, found.fields, found.items) == ("book", ("price", "tags", "author"), 2)


async def test_only_the_first_items_are_read():
    queue = Queue([item(n, price=None) for n in range(MAX_ITEMS + 50)])
    (found,) = (await read_findings(queue, "r", Stats(items=1, steps={"book": Counts(items=1)}))).empty
    assert found.items == queue.read == MAX_ITEMS


@pytest.mark.parametrize("value", [0, False, "x", [0], {"a": 1}])
async def test_zero_and_false_are_not_empty(value):
    stats = Stats(items=1, steps={"book": Counts(items=1)})
    assert not (await read_findings(Queue([item(1, title=value)]), "r", stats)).empty


async def test_a_sample_has_its_size_and_order_and_reaches_the_end():
    items = [item(n) for n in range(500)]
    seen = set()
    for _ in range(40):
        found = [one.id for one in await sample_of(Queue(items).items("r"), 20)]
        assert len(found) == 20
        assert found == sorted(set(found))
        seen |= set(found)
    assert max(seen) > 400
    assert len(await sample_of(Queue(items[:3]).items("r"), 20)) == 3
