"""The setting `tokens`: as Python values and as text, and no error shows a token."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.scrape.settings.scraper import ScraperSettings


def read(value):
    return ScraperSettings.read(tokens=value).tokens


def test_a_list_and_its_hosts():
    tokens = read({"from": ["a", "b"], "hosts": "api.example.com"})
    assert tokens.given == ("a", "b")
    assert tokens.origins == {"https://api.example.com"}
    assert (tokens.header, tokens.form, tokens.query) == ("Authorization", "Bearer {}", None)
    assert "'a'" not in repr(tokens)


def test_all_of_it_as_text(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("a")
    tokens = read(f"{file} hosts=api.example.com,http://localhost:8080 header=X-Api-Key")
    assert tokens.file == file
    assert tokens.origins == {"https://api.example.com", "http://localhost:8080"}
    assert (tokens.header, tokens.form) == ("X-Api-Key", "{}")
    assert read(f"file:{file} hosts=api.example.com query=key").query == "key"
    assert read(f"{file} hosts=api.example.com bucket=search").bucket == "search"


@pytest.mark.parametrize("word", ["env", "on", True])
def test_the_environment_is_named_or_the_usual_variable_is_meant(word):
    assert read({"from": word, "hosts": ["api.example.com"]}).variable == "SHOAL_TOKENS"
    assert read("env:GITHUB_TOKENS hosts=api.github.com").variable == "GITHUB_TOKENS"


def test_a_function_gives_them():
    assert read({"from": list, "hosts": "api.example.com"}).provider is list


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (["s3cret"], "need the hosts"),
        ("s3cret hosts=api.example.com", "'file:NAME'"),
        ({"from": ["s3cret"], "hosts": "https://api.example.com/v1"}, "without a path"),
        ({"from": ["s3cret", ""], "hosts": "a.test"}, "list of strings"),
        ({"from": ["s3cret"], "hosts": "a.test", "header": "X: {} {}"}, "a header such as"),
        ({"from": ["s3cret"], "hosts": "a.test", "header": "X: {x}{}"}, "a header such as"),
        ({"from": ["s3cret"], "hosts": "a.test", "header": "X", "query": "k"}, "leave one of them out"),
        ({"from": ["s3cret"], "host": "a.test"}, "Did you mean 'hosts'?"),
        ({"from": 5, "hosts": "a.test"}, "a list, a file, env:NAME or a function"),
        ("file:/nowhere/s hosts=a.test", "found no file"),
        ("env:A env:B hosts=a.test", "each option once"),
    ],
)
def test_what_cannot_be_used_is_refused_without_showing_a_token(value, said):
    with pytest.raises(InvalidSetting) as caught:
        read(value)
    assert said in str(caught.value)
    assert "s3cret" not in str(caught.value)
