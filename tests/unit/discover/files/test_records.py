"""Lines of JSON."""

from datetime import timedelta

import pytest

from shoal.core.model import Task
from shoal.discover.files.files import UrlFile
from shoal.discover.files.lines import MAX_LINE
from shoal.discover.files.table import Columns


@pytest.fixture
def read(tmp_path):
    def read(content, **columns):
        path = tmp_path / "tasks.jsonl"
        path.write_text(content)
        return list(UrlFile(str(path), step="first", columns=Columns(**columns)))

    return read


def test_an_object_gives_the_fields_of_a_task(read):
    (task,) = read(
        '{"url": "https://A.test/", "payload": {"n": 1}, "key": "k", "partition": "CA", "priority": 9,'
        ' "step": "book", "ttl": "30m"}'
    )
    assert task == Task(
        url="https://a.test/",
        payload={"n": 1},
        key="k",
        partition="CA",
        priority=9,
        step="book",
        ttl=timedelta(minutes=30),
    )


def test_a_plain_text_is_a_url(read):
    assert read('"https://a.test/"\n\n  "https://a.test/2"  \n') == [
        Task(url="https://a.test/", step="first"),
        Task(url="https://a.test/2", step="first"),
    ]


def test_other_fields_become_payload_and_the_payload_itself_wins(read):
    (task,) = read('{"url": "https://a.test/", "name": "x", "n": 1, "payload": {"n": 2}}')
    assert task.payload == {"name": "x", "n": 2}


def test_fields_of_other_names_give_the_parts_of_a_task(read):
    line = '{"link": "https://a.test/", "state": "CA", "rank": 9, "id": 7, "name": "x", "url": "ftp://b"}'
    assert read(line, url="link", partition="state", priority="rank", key="id") == [
        Task(
            url="https://a.test/",
            step="first",
            partition="CA",
            priority=9,
            key="7",
            payload={"name": "x", "url": "ftp://b"},
        )
    ]


def test_one_field_may_give_two_parts(read):
    (task,) = read('{"url": "https://a.test/", "id": "u1"}', partition="id", key="id")
    assert (task.partition, task.key, task.payload) == ("u1", "u1", {})


def test_the_payload_may_be_some_fields_or_none(read):
    line = '{"url": "https://a.test/", "a": 1, "b": 2, "c": 3}'
    assert [task.payload for task in read(line, payload=["a", "c", "gone"])] == [{"a": 1, "c": 3}]
    assert [task.payload for task in read(line, payload=False)] == [{}]
    assert [task.payload for task in read(line, payload=True)] == [{"a": 1, "b": 2, "c": 3}]


def test_records_may_hold_no_url(read):
    (task,) = read('{"url": "just a field", "n": 1}', url="-")
    assert task == Task(step="first", payload={"url": "just a field", "n": 1})


def test_a_payload_needs_no_url(read):
    assert read('{"user": "ann"}') == [Task(step="first", payload={"user": "ann"})]


def test_null_is_the_same_as_nothing(read):
    assert read('{"url": "https://a.test/", "key": null, "ttl": null, "payload": null}') == [
        Task(url="https://a.test/", step="first")
    ]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{nonsense", "it is not JSON: "),
        ("[" * 100_000, "it is not JSON: "),
        ('{"url": "https://a.test/"} trailing', "it is not JSON: "),
        ("[1]", 'it must be a URL or an object such as {"url": "https://…"}'),
        ("null", "it must be a URL or an object"),
        ("{}", "it has neither a url nor a payload"),
        ('{"url": 5}', "url must be text"),
        ('{"url": "ftp://a.test/"}', "its scheme is 'ftp'"),
        ('"nonsense"', "it has no scheme"),
        ('{"url": "https://a.test/", "priority": 10}', "priority must be a whole number from 0 to 9, got 10"),
        (
            '{"url": "https://a.test/", "priority": true}',
            "priority must be a whole number from 0 to 9, got True",
        ),
        ('{"url": "https://a.test/", "ttl": -1}', "ttl must be a duration"),
        ('{"url": "https://a.test/", "ttl": "soon"}', "ttl must be a duration"),
        ('{"url": "https://a.test/", "payload": [1]}', "payload must be an object"),
        ('{"url": "https://a.test/", "key": 5}', "key must be one line of text, got 5"),
        ('{"url": "https://a.test/", "partition": "a\\nb"}', "partition must be one line of text"),
        (f'"{"x" * MAX_LINE}"', "the line has more than"),
    ],
)
def test_what_is_no_task_is_refused_with_its_place_and_reason(read, line, reason):
    refusal, task = read(f'{line}\n"https://a.test/"\n')
    assert refusal.where.endswith("tasks.jsonl:1")
    assert refusal.reason.startswith(reason)
    assert task.url == "https://a.test/"
