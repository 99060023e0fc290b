from datetime import timedelta

from shoal.queue.postgres.arrays import (
    bool_array,
    bytes_array,
    int_array,
    interval_array,
    joined_texts,
    text_array,
)


def test_columns_become_array_literals():
    assert int_array([1, -2, 3]) == "{1,-2,3}"
    assert bool_array([True, False]) == "{t,f}"
    assert bytes_array(["00ff", "a1"]) == r'{"\\x00ff","\\xa1"}'
    assert interval_array([timedelta(minutes=1), None]) == '{"60.000000 s",NULL}'


def test_what_could_end_a_text_is_escaped():
    assert text_array(['a"b', "c\\d", "{,}", "NULL", "", None]) == r'{"a\"b","c\\d","{,}","NULL","",NULL}'


def test_an_empty_column_is_an_empty_array_and_one_of_nones_is_none():
    assert int_array([]) == bytes_array([]) == text_array([]) == interval_array([]) == "{}"
    assert text_array([None, None]) is interval_array([None]) is None


def test_texts_without_a_gap_are_escaped_like_others():
    assert text_array(['a"b', "c\\d", "{,}", "NULL", ""]) == r'{"a\"b","c\\d","{,}","NULL",""}'
    assert text_array([""]) == '{""}'


def test_a_text_with_a_nul_character_does_not_become_two():
    assert text_array(["a\0b", "c"]) == '{"a\0b","c"}'


def test_texts_are_joined_by_a_character_that_json_urls_and_keys_do_not_have():
    assert joined_texts(['{"a":1}', None, '"b"']) == '{"a":1}\x01\x02\x01"b"'
    assert joined_texts(["[]"]) == "[]"
    assert joined_texts([]) == ""
    assert joined_texts([None, None]) is None


def test_a_control_character_in_json_from_elsewhere_is_escaped():
    assert joined_texts(['"a\x01b"', "1"]) == '"a\\u0001b"\x011'
