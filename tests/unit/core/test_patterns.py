"""Patterns match, and none of them is slow."""

import re
import time
from fnmatch import fnmatchcase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from shoal.core.patterns import glob, regular
from shoal.core.urls import MAX_URL


@given(st.text("ab*", max_size=8), st.text("ab", max_size=8))
def test_a_star_in_a_glob_matches_any_text(pattern, text):
    assert bool(glob(pattern)(text)) == fnmatchcase(text, pattern)


@pytest.mark.parametrize("text", ["a.b", "a+b", "[ab]", "a?b", "a\\b", "(a"])
def test_only_the_star_is_special(text):
    assert glob(text)(text)
    assert glob(f"{text}*")(f"{text}/x")
    assert not glob("a.b*")("axb")


def test_letters_of_other_scripts_match_as_urls_spell_them():
    assert glob("/straße/*")("/stra%C3%9Fe/1")


def test_many_stars_are_fast_on_a_crafted_url():
    matcher = glob("*a*a*a*a*a*a*a*b")
    started = time.process_time()
    assert not matcher("a" * MAX_URL)
    assert time.process_time() - started < 0.2


@pytest.mark.parametrize(
    "pattern",
    [
        r"https://a\.test/\d+",
        r"https?://[^/]+/p/\d+",
        r".*/p/\d+",
        r".*/\d++-[a-z]++\.html",
        r"https://(?:www\.)?a\.test/(news|blog)/",
        r"(?i)https://a\.test/x{2,5}",
        r"https://a\.test(?:/[a-z]+)*+",
        r"(?>a+b)*/",
        r"[)(*+]*\)\*",
        r"https://a\.test/(?P<kind>news|blog)/(?=\d)",
        r"x{3}y{3}z{3}",
        r"[]*+]x",
        "",
    ],
)
def test_safe_expressions_are_accepted(pattern):
    assert regular(pattern).__self__.pattern == pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"(a+)+$",
        r"(a*)*b",
        r"(?:a|b|ab)*c",
        r"((a)+)+",
        r"(?:(?:x+)y)+z",
        r"(.{0,50})*x",
        r"(a+){5,}",
        r"(?:[a-z]+/)*",
        r"(?P<x>a+)+",
    ],
)
def test_nested_repeats_are_rejected(pattern):
    with pytest.raises(ValueError, match="repeats a group that itself repeats or has alternatives"):
        regular(pattern)


@pytest.mark.parametrize("pattern", [r".*a.*b.*c", r"\d+\d+\d+", r"a{0,500}b{1,}c*", r".*?a.*?b.*?c"])
def test_a_sequence_of_backtracking_repeats_is_rejected(pattern):
    with pytest.raises(ValueError, match=r"has 3 unbounded repeats.*\[0-9\]\+\+"):
        regular(pattern)


@pytest.mark.parametrize("pattern", ["(", "a{2", "[", "*", "(?P<x", "\\", "[[a]", "a(?i)"])
def test_an_invalid_expression_is_rejected_and_never_crashes(pattern):
    try:
        regular(pattern)
    except ValueError as error:
        assert "is not a regular expression" in str(error)
    else:
        re.compile(pattern)


@given(st.text("a(|)*+?[]{},2\\", max_size=12))
def test_any_text_is_either_accepted_or_rejected(pattern):
    try:
        matcher = regular(pattern)
    except ValueError:
        return
    matcher("a" * 50)


def test_the_slowest_accepted_expression_takes_no_minutes():
    matcher = regular("[a-x]*[a-x]*[yz]")
    started = time.process_time()
    assert not matcher("x" * MAX_URL)
    assert time.process_time() - started < 10
