"""The fields of a form, and the tasks that send one."""

import pytest

from shoal.core.errors import InvalidInput
from shoal.core.request_options import RequestOptions
from shoal.testing import page

FORM = """
<form id=search action="/find?x=1" method=post>
  <input name=token type=hidden value=t0k><input name=q><input value=nameless>
  <input type=checkbox name=new checked><input type=checkbox name=old>
  <input type=radio name=size value=s><input type=radio name=size value=m checked>
  <input type=submit name=go value=Go><input type=file name=file><button name=b>b</button>
  <input name=off value=1 disabled>
  <input name=tag value=a><input name=tag value=b>
  <textarea name=note>two
 lines</textarea>
  <select name=sort><option>Price</option><option value=n selected>Name</option></select>
  <select name=first><option disabled value=0>None</option><option>One</option></select>
  <select name=many multiple><option selected>1</option><option selected>2</option><option>3</option></select>
  <select name=none multiple><option>1</option></select>
</form>
<form id=other><input name=a value=1></form>
"""


@pytest.fixture
def shop():
    return page(FORM, url="https://shop.example/list?page=1")


def test_a_form_has_the_fields_that_a_browser_would_send(shop):
    assert shop.form() == {
        "token": "t0k",
        "q": "",
        "new": "on",
        "size": "m",
        "tag": ["a", "b"],
        "note": "two\n lines",
        "sort": "n",
        "first": "One",
        "many": ["1", "2"],
    }
    assert shop.form("#other") == {"a": "1"}
    assert shop.form("#missing") == {}


def test_a_form_is_sent_where_it_says(shop):
    task = shop.post(shop.css_first("#search"), form={**shop.form(), "q": "red"}, step="found", rank=3)
    assert (task.url, task.step, task.payload) == ("https://shop.example/find?x=1", "found", {"rank": 3})
    assert task.request.post.startswith(b"token=t0k&q=red&")
    assert task.depth == 1


def test_a_form_without_an_action_is_sent_to_its_page(shop):
    assert shop.post(shop.css_first("#other"), form={}).url == "https://shop.example/list?page=1"


def test_json_and_bytes_are_sent_as_they_are(shop):
    assert shop.post("/api", json={"page": 2}, headers={"x-key": "1"}).request == RequestOptions.json(
        {"page": 2}, headers={"x-key": "1"}
    )
    assert shop.post("/api", body=b"<q/>", headers={"content-type": "text/xml"}).request.post == b"<q/>"
    assert shop.post("/api", json=None, form={}).request == RequestOptions.form({})


def test_a_url_that_is_none_or_no_web_address_gives_no_task(shop):
    assert shop.post(None, form={}) is None
    assert shop.post("mailto:me@shop.example", form={}) is None


@pytest.mark.parametrize("sent", [{}, {"form": {}, "json": {}}, {"json": {}, "body": b""}])
def test_one_thing_is_sent(shop, sent):
    with pytest.raises(InvalidInput, match="A POST sends a form, JSON or bytes"):
        shop.post("/api", **sent)
