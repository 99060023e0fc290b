"""What is sent, and what tells one page from another."""

from shoal.core.ask import Ask, asked_for

URL = "https://a.example/search"


def test_a_form_is_sent_as_browsers_do():
    ask = Ask.form({"q": "red & blue", "size": [41, 42]}, headers={"x-lang": "en"})
    assert ask.post == b"q=red+%26+blue&size=41&size=42"
    assert ask.headers == {"content-type": "application/x-www-form-urlencoded", "x-lang": "en"}


def test_the_same_json_is_the_same_bytes_in_whatever_order_it_is_written():
    assert Ask.json({"b": 1, "a": [2]}).post == Ask.json({"a": [2], "b": 1}).post == b'{"a":[2],"b":1}'
    assert Ask.json({}).headers == {"content-type": "application/json"}


def test_a_kind_of_content_may_be_named():
    for name in ("content-type", "Content-Type"):
        ask = Ask.json({}, headers={name: "application/graphql", "X-Key": "1"})
        assert ask.headers == {"content-type": "application/graphql", "x-key": "1"}


def test_what_is_sent_is_not_shown():
    assert "hush" not in repr(Ask.form({"password": "hush"}, headers={"authorization": "hush"}))


def test_a_url_alone_is_its_own_name_and_a_post_has_another():
    assert asked_for(URL, None) == URL
    assert asked_for(URL, b"1").startswith(f"{URL} POST ")
    assert len({asked_for(URL, None), asked_for(URL, b""), asked_for(URL, b"1"), asked_for(URL, b"2")}) == 4


def test_in_words_it_tells_no_secret():
    ask = Ask.form({"password": "hush"}, headers={"authorization": "hush"})
    assert ask.words == "POST of 13 bytes, with content-type, authorization"
    assert Ask(headers={"accept": "text/plain"}).words == "GET, with accept"
    assert Ask(post=b"").words == "POST of 0 bytes"
