from shoal.queue.postgres.arrays import joined_texts, unless_all_none


def test_a_column_of_nones_is_none():
    assert unless_all_none([None, None]) is None
    assert unless_all_none([None, 0]) == [None, 0]


def test_texts_are_joined_by_a_character_that_json_urls_and_keys_do_not_have():
    assert joined_texts(['{"a":1}', None, '"b"']) == '{"a":1}\x01\x02\x01"b"'
    assert joined_texts(["[]"]) == "[]"
    assert joined_texts([]) == ""
    assert joined_texts([None, None]) is None


def test_a_control_character_in_json_from_elsewhere_is_escaped():
    assert joined_texts(['"a\x01b"', "1"]) == '"a\\u0001b"\x011'
