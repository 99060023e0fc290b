from datetime import timedelta

from shoal.queue.postgres.arrays import hexes, numbers, spans, texts


def test_columns_become_array_literals():
    assert numbers([1, -2, 3]) == "{1,-2,3}"
    assert hexes(["00ff", "a1"]) == r'{"\\x00ff","\\xa1"}'
    assert spans([timedelta(minutes=1), None]) == '{"60.000000 s",NULL}'


def test_what_could_end_a_text_is_escaped():
    assert texts(['a"b', "c\\d", "{,}", "NULL", "", None]) == r'{"a\"b","c\\d","{,}","NULL","",NULL}'


def test_an_empty_column_is_an_empty_array_and_one_of_nones_is_none():
    assert numbers([]) == hexes([]) == texts([]) == spans([]) == "{}"
    assert texts([None, None]) is spans([None]) is None
