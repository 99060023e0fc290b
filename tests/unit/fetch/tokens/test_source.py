"""Where tokens come from; and no message ever shows one."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.fetch.tokens.token import TokenSource, make_tokens, split


async def test_a_file_holds_one_a_line_with_comments(tmp_path):
    file = tmp_path / "tokens.txt"
    file.write_text("# mine\none\ntwo # the old one\n\n three,four\n")
    assert await TokenSource(file=file).read() == ["one", "two", "three", "four"]


async def test_a_variable_holds_them_with_commas_or_lines(monkeypatch):
    monkeypatch.setenv("API_TOKENS", "one,two\nthree")
    assert await TokenSource(variable="API_TOKENS").read() == ["one", "two", "three"]


async def test_a_function_is_asked_whether_it_waits_or_not():
    async def later():
        return ["one"]

    assert await TokenSource(provider=later).read() == ["one"]
    assert await TokenSource(provider=lambda: ["two"]).read() == ["two"]


@pytest.mark.parametrize("bad", ["with space", "line\nbreak", "ümlaut", "", "x" * 10_000])
async def test_one_that_cannot_be_sent_is_named_by_its_place_only(bad):
    with pytest.raises(InvalidSetting) as caught:
        await TokenSource(given=["fine", bad]).read()
    assert "number 2" in str(caught.value)
    assert not bad or bad not in str(caught.value)


async def test_an_empty_variable_says_so(monkeypatch):
    monkeypatch.delenv("NOT_THERE", raising=False)
    with pytest.raises(InvalidSetting, match="NOT_THERE holds no token"):
        await TokenSource(variable="NOT_THERE").read()


def test_the_same_token_counts_once_and_has_the_same_name_everywhere():
    here, there = make_tokens(["a", "b", "a"], b"salt"), make_tokens(["b"], b"salt")
    assert [token.number for token in here] == [1, 2]
    assert here[1].key == there[0].key
    assert make_tokens(["b"], b"other")[0].key != there[0].key
    assert make_tokens(["b"], b"salt", "search")[0].key != there[0].key
    assert "text" not in repr(here[0])


def test_commas_and_spaces_part_tokens():
    assert split("a, b  c") == ["a", "b", "c"]


async def test_what_cannot_be_had_says_why_without_what_it_holds(tmp_path):
    def broken():
        raise RuntimeError("s3cret")

    (tmp_path / "image.txt").write_bytes(b"\xff\xfes3cret\xff")
    for source in (
        TokenSource(provider=broken),
        TokenSource(file=tmp_path / "image.txt"),
        TokenSource(file=tmp_path),
    ):
        with pytest.raises(InvalidSetting) as caught:
            await source.read()
        assert "s3cret" not in str(caught.value) and str(caught.value).startswith("tokens ")
