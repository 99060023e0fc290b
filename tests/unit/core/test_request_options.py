"""Request options, and the identity of a request."""

from shoal.core.request_options import RequestOptions, asked_for

URL = "https://a.example/search"


def test_a_form_is_encoded_as_browsers_do():
    ask = RequestOptions.form({"q": "red & blue", "size": [41, 42]}, headers={"x-lang": "en"})
    assert ask.post == b"q=red+%26+blue&size=41&size=42"
    assert ask.headers == {"content-type": "application/x-www-form-urlencoded", "x-lang": "en"}


def test_equal_json_is_the_same_bytes_whatever_the_key_order():
    assert (
        RequestOptions.json({"b": 1, "a": [2]}).post
        == RequestOptions.json({"a": [2], "b": 1}).post
        == b'{"a":[2],"b":1}'
    )
    assert RequestOptions.json({}).headers == {"content-type": "application/json"}


def test_the_content_type_can_be_overridden():
    for name in ("content-type", "Content-Type"):
        ask = RequestOptions.json({}, headers={name: "application/graphql", "X-Key": "1"})
        assert ask.headers == {"content-type": "application/graphql", "x-key": "1"}


def test_the_repr_hides_body_and_headers():
    assert "hush" not in repr(RequestOptions.form({"password": "hush"}, headers={"authorization": "hush"}))


def test_a_get_is_identified_by_its_url_and_a_post_by_its_body_too():
    assert asked_for(URL, None) == URL
    assert asked_for(URL, b"1").startswith(f"{URL} POST ")
    assert len({asked_for(URL, None), asked_for(URL, b""), asked_for(URL, b"1"), asked_for(URL, b"2")}) == 4


def test_its_description_contains_no_secret():
    ask = RequestOptions.form({"password": "hush"}, headers={"authorization": "hush"})
    assert ask.words == "POST of 13 bytes, with content-type, authorization"
    assert RequestOptions(headers={"accept": "text/plain"}).words == "GET, with accept"
    assert RequestOptions(post=b"").words == "POST of 0 bytes"
