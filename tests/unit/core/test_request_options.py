"""Request options, and the identity of a request."""

import pytest

from shoal.core.errors import InvalidInput
from shoal.core.request_options import RequestOptions, after_redirect, asked_for

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


def test_options_are_read_as_a_step_writes_them():
    read = RequestOptions.read
    assert read() is read(method="get") is None
    assert read(headers={"X-One": "1"}) == RequestOptions(headers={"X-One": "1"})
    assert read(method="POST") == RequestOptions(post=b"")
    assert read(form={"q": "1"}) == RequestOptions.form({"q": "1"})
    assert read(json={"q": 1}, method="post") == RequestOptions.json({"q": 1})
    assert read(body=b"x").post == b"x"
    assert read(cookies={"a": "1", "b": "2"}, headers={"X": "1"}).headers == {"X": "1", "cookie": "a=1; b=2"}


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"method": "TRACE"}, "method must be one of GET, POST, PUT, .*, got 'TRACE'"),
        ({"method": "HEAD", "body": b"x"}, "A HEAD sends no form"),
        ({"method": "GET", "json": {}}, "A GET sends no form"),
        ({"form": {}, "json": {}}, "one of form=, json= and body="),
        ({"headers": [("a", "b")]}, "headers must be names and values"),
        ({"cookies": [{"name": "a"}]}, "cookies must be names and values"),
        ({"cookies": {"a b": "1"}}, "a name that cannot be sent: 'a b'"),
        ({"cookies": {"a": "hush; b=2"}}, "cookie 'a' must be text"),
        ({"cookies": {"a": "hush\r\nX: 1"}}, "cookie 'a' must be text"),
        ({"cookies": {"a": "1"}, "headers": {"Cookie": "b=2"}}, "leave one of them out"),
    ],
)
def test_options_that_cannot_be_sent_are_refused_without_their_values(given, says):
    with pytest.raises(InvalidInput, match=says) as refused:
        RequestOptions.read(**given)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("method", ["PUT", "PATCH", "DELETE", "OPTIONS", "HEAD"])
def test_every_method_has_its_own_identity_and_words(method):
    plain = RequestOptions.read(method=method.lower())
    assert plain == RequestOptions(method=method) == RequestOptions(post=b"", method=method)
    assert plain.words == f"{method} of 0 bytes"
    assert asked_for(URL, b"", method) != asked_for(URL, b"") != asked_for(URL, None)
    if method != "HEAD":
        assert RequestOptions.read(method=method, json={"a": 1}).post == b'{"a":1}'


@pytest.mark.parametrize(
    ("method", "status", "then"),
    [
        ("POST", 302, "GET"),
        ("POST", 307, "POST"),
        ("PUT", 302, "PUT"),
        ("PUT", 303, "GET"),
        ("HEAD", 303, "HEAD"),
        ("DELETE", 308, "DELETE"),
    ],
)
def test_a_redirect_changes_the_method_as_in_browsers(method, status, then):
    assert after_redirect(method, status) == then


def test_a_method_may_be_written_in_lower_case_everywhere():
    assert RequestOptions(method="put", post=b"x") == RequestOptions(method="PUT", post=b"x")
    assert RequestOptions(method="put") == RequestOptions.read(method="put")


@pytest.mark.parametrize("value", [{"b": 1}, [{"b": 1}], [[1]]])
def test_nested_values_are_refused_instead_of_sent_as_python(value):
    with pytest.raises(InvalidInput, match="form has a nested value at 'a'"):
        RequestOptions.form({"a": value})


def test_a_shown_request_names_its_headers_and_is_a_get_without_a_body():
    shown = repr(RequestOptions(headers={"Cookie": "sid=secret"}))
    assert shown == "<RequestOptions GET, with Cookie>"
