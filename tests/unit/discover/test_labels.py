"""The partition and priority that an operator sets."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.core.model import Task
from shoal.core.tasks import iterate
from shoal.discover.labels import Labels
from shoal.discover.source import Refusal


class Two:
    """A source of one task and one refusal."""

    where = "here"

    def __iter__(self):
        yield Task(url="https://a.test/", priority=1)
        yield Refusal("here", "x", "y")


async def labelled(labels, *from_columns):
    source = labels.label(Two(), *from_columns)
    assert source.where == "here"
    return [found async for found in iterate(source)]


@pytest.mark.parametrize(
    ("labels", "columns"),
    [
        (Labels("state"), {"partition": "state"}),
        (Labels(":CA"), {}),
        (Labels(None, "rank"), {"priority": "rank"}),
        (Labels(None, "7"), {}),
        (Labels(None, 0), {}),
        (Labels(), {}),
    ],
)
def test_a_word_is_a_column_unless_it_is_marked_or_a_number(labels, columns):
    assert labels.columns() == columns


async def test_where_there_are_no_columns_a_word_is_meant_as_it_stands():
    task, refusal = await labelled(Labels("CA", "7"))
    assert task == Task(url="https://a.test/", partition="CA", priority=7)
    assert isinstance(refusal, Refusal)


async def test_what_a_column_gives_is_left_to_the_source():
    task, _ = await labelled(Labels("state", 0), "partition", "priority")
    assert task == Task(url="https://a.test/", priority=0)


async def test_without_labels_a_source_stays_as_it_is():
    source = Two()
    assert Labels().label(source) is source
    assert Labels("state", "rank").label(source, "partition", "priority") is source


def test_a_priority_that_is_neither_is_refused():
    with pytest.raises(InvalidSetting, match="priority must be a whole number from 0 to 9, got 'rank'"):
        Labels(None, "rank").label(Two(), "partition")
