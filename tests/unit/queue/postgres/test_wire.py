from datetime import timedelta

from shoal.queue.postgres.wire import bytes_array, int_array, interval_array, text_array


def test_columns_become_array_literals():
    assert int_array([1, -2, 3]) == "{1,-2,3}"
    assert bytes_array(["00ff", "a1"]) == r'{"\\x00ff","\\xa1"}'
    assert interval_array([timedelta(minutes=1), None]) == '{"60.000000 s",NULL}'


def test_what_could_end_a_text_is_escaped():
    assert text_array(['a"b', "c\\d", "{,}", "NULL", "", None]) == r'{"a\"b","c\\d","{,}","NULL","",NULL}'


def test_an_empty_column_is_an_empty_array_and_one_of_nones_is_none():
    assert int_array([]) == bytes_array([]) == text_array([]) == interval_array([]) == "{}"
    assert text_array([None, None]) is interval_array([None]) is None
