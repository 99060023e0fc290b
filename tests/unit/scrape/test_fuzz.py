"""Thousands of broken pages: only documented errors are raised, and the tree stays consistent."""

import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from shoal.core.http import Response
from shoal.core.model import Task
from shoal.scrape.page import Page
from tools import fuzz as fuzzing
from tools.fuzz import PIECES, SEEDS, Finding, fuzz, mutated, read_everything, real_pages

PAGES = 400  # `make fuzz` reads 500,000


@pytest.mark.long
def test_no_mutated_page_crashes_slows_or_fills_its_process():
    found = [(finding, mutated(real_pages(), finding.number)) for finding in fuzz(0, PAGES)]
    assert found == []


def test_no_mutation_of_a_page_breaks_an_extractor():
    for number in range(300):
        read_everything(mutated(SEEDS, number))


CRASHES = """import os, sys
first, last = map(int, sys.argv[1:])
for number in range(first, last):
    print(f"[{number}, null]", flush=True)
    number != 8 or os.abort()
print(f'[{number}, "takes 2.0 s"]')
"""


def test_a_page_that_ends_its_process_is_named_and_the_pages_after_it_are_read(monkeypatch):
    monkeypatch.setattr(fuzzing, "READER", (sys.executable, "-c", CRASHES))
    assert list(fuzz(7, 5)) == [Finding(8, "SIGABRT"), Finding(11, "takes 2.0 s")]


@settings(deadline=None)
@given(pieces=st.lists(st.sampled_from(PIECES), max_size=60))
def test_no_row_of_pieces_breaks_the_parser(pieces):
    read_everything("".join(pieces).encode(errors="replace"))


@settings(deadline=None)
@given(body=st.binary(max_size=500))
def test_no_bytes_break_the_parser(body):
    read_everything(b"{" + body)


@settings(deadline=None)
@given(text=st.text(alphabet="<>/ab=\"' &;!-", max_size=80))
def test_what_was_parsed_and_written_is_parsed_the_same_again(text):
    first = Page(Response(url="https://e.com/", status=200, body=text.encode()), Task(url="https://e.com/"))
    body = first.css_first("body")
    if body is None:
        return
    second = Page(
        Response(url="https://e.com/", status=200, body=body.html.encode()), Task(url="https://e.com/")
    )
    assert second.text("body") == first.text("body")
