from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.errors import InvalidItem, InvalidTask
from shoal.core.model import DOWNLOAD_KEY, MINUTE, RunSettings, Task
from shoal.core.request_options import RequestOptions
from shoal.queue.intake import Intake, decode, encode_item

INTAKE = Intake("run", RunSettings())


def test_the_pages_of_a_host_share_the_beginning_of_their_ids():
    ids = {INTAKE.entry(Task(url=f"https://a.example/{number}")).id for number in range(50)}
    assert len(ids) == 50
    assert len({task_id[:4] for task_id in ids}) == 1


@pytest.mark.parametrize(
    "task",
    [
        Task(url="HTTPS://a.example/b#c", step="detail", partition="p", priority=3, depth=2),
        Task(url="https://a.example/", payload={"a": 1}),
        Task(url="https://a.example/", key="k"),
        Task(url="https://a.example/", ttl=MINUTE),
        Task(url="https://a.example/", delay=MINUTE),
        Task(url="https://a.example/", request=RequestOptions(post=b"a=1")),
    ],
)
def test_a_follow_up_task_is_converted_as_any_other(task):
    intake = Intake("run", RunSettings(ttl=2 * MINUTE, dedup=MINUTE), "books")
    assert intake.follow_up(task) == intake.follow_up(task) == intake.entry(task)


def test_a_link_that_many_pages_have_is_converted_once_for_each_depth():
    first, second = (INTAKE.follow_up(Task(url="https://a.example/menu", depth=3)) for _ in range(2))
    assert first is second
    assert INTAKE.follow_up(Task(url="https://a.example/menu", depth=4)).depth == 4


@pytest.mark.parametrize(
    "wrong", [{"priority": True}, {"partition": ["a"]}, {"ttl": timedelta(0)}, {"key": ""}, {"delay": None}]
)
def test_a_wrong_follow_up_task_is_refused_even_if_an_equal_link_is_known(wrong):
    INTAKE.follow_up(Task(url="https://a.example/known", priority=1))
    with pytest.raises(InvalidTask):
        INTAKE.follow_up(Task(**{"url": "https://a.example/known", "priority": 1, **wrong}))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"priority": 42}, "priority must be 0 to 9, got 42"),
        ({"priority": True}, "priority"),
        ({"priority": None}, "priority"),
        ({"step": ""}, "step must be"),
        ({"step": 3}, "wrong type"),
        ({"step": "a\nb"}, "step must be"),
        ({"partition": "x" * 201}, "partition must be"),
        ({"key": ""}, "key must be"),
        ({"key": "a\0b"}, "key must be"),
        ({"key": "\ud800"}, "key must be"),
        ({"delay": -MINUTE}, "delay must be"),
        ({"delay": None}, "delay must be a timedelta"),
        ({"delay": 1}, r"delay must be a timedelta such as delay=timedelta\(hours=1\), got 1"),
        ({"ttl": "1h"}, r"ttl must be a timedelta such as ttl=timedelta\(hours=1\), got '1h'"),
        ({"ttl": timedelta(0)}, "ttl must be"),
        ({"ttl": timedelta.max}, "ttl must be"),
        ({"depth": -1}, "depth must be"),
        ({"payload": {"x": object()}}, "payload is not JSON"),
        ({"payload": "x"}, "payload must be a dict such as {'page': 1}, got 'x'"),
        ({"payload": {"x": "a\0b"}}, "payload holds a NUL"),
        ({"payload": {"x": "y" * (1 << 20)}}, "payload has"),
        ({"url": "nonsense"}, "no scheme"),
        ({"url": "https://a.example/" + "x" * 1_000_000}, "the limit is"),
    ],
)
def test_an_invalid_task_is_refused_with_the_reason(fields, reason):
    with pytest.raises(InvalidTask, match=reason):
        INTAKE.entry(Task(**fields))


def test_the_six_characters_that_spell_a_nul_are_no_nul():
    assert decode(INTAKE.entry(Task(payload={"js": "\\u0000"})).payload) == {"js": "\\u0000"}
    assert decode(encode_item(["\\\\u0000"])) == ["\\\\u0000"]


@given(st.text(alphabet="\\u0 \0", max_size=12))
def test_a_nul_is_found_exactly_where_one_is(text):
    if "\0" in text:
        with pytest.raises(InvalidItem, match="NUL"):
            encode_item({"x": text})
    else:
        assert decode(encode_item({"x": text})) == {"x": text}


def test_a_download_which_may_carry_an_item_neither_expires_nor_is_left_out():
    settings = RunSettings(ttl=timedelta(seconds=5), dedup=timedelta(days=1))
    page = Intake("run", settings, "books").entry(Task(url="https://example.com/"))
    file = Intake("run", settings, "books").entry(
        Task(url="https://example.com/", payload={DOWNLOAD_KEY: {}})
    )
    assert page.ttl and page.scraper_key
    assert file.ttl is None and file.scraper_key is None
