"""The names of sources, as options and project files give them."""

import pytest

from shoal.core.errors import InvalidSetting
from shoal.discover.files.table import Columns
from shoal.discover.labels import Labels
from shoal.fleet.project.file import ProjectScraper
from shoal.fleet.sources.names import read_seeds, seeds_of


def test_nothing_given_is_nothing_to_begin_with():
    assert not read_seeds({"url": None, "axis": []})


def test_one_text_is_as_good_as_a_list():
    assert read_seeds({"url": "https://a.test/"}).urls == ("https://a.test/",)
    assert read_seeds({"sitemap": ["https://a.test"], "sitemap_hosts": "*.a.test, b.test"}).hosts == (
        "*.a.test",
        "b.test",
    )


@pytest.mark.parametrize(
    ("written", "columns"),
    [(["a,b"], ("a", "b")), (["a", "b"], ("a", "b")), ("*", True), ("-", False), ([], None)],
)
def test_columns_become_payload(written, columns):
    assert read_seeds({"urls_file": "x.csv", "payload": written}).columns == Columns(payload=columns)


def test_templates_make_the_payload_of_combinations():
    seeds = read_seeds({"axis": "user:ann,bob", "payload": ["query=author:{user},x", "n=1"]})
    assert seeds.templates == {"query": "author:{user},x", "n": "1"}
    with pytest.raises(InvalidSetting, match="payload NAME=TEMPLATE is for combinations; add combine"):
        read_seeds({"urls_file": "x.csv", "payload": "query=author"})


def test_the_rest_goes_where_it_belongs():
    seeds = read_seeds(
        {
            "urls_file": "x.csv",
            "column": "link",
            "key": "id",
            "delimiter": "tab",
            "encoding": "latin-1",
            "partition": "state",
            "priority": "3",
            "seed_step": "book",
        }
    )
    assert seeds.columns == Columns(url="link", key="id", delimiter="\t")
    assert (seeds.labels, seeds.step, seeds.encoding) == (Labels("state", 3), "book", "latin-1")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"urlsfile": "x"}, "urlsfile is not known. Did you mean 'urls_file'?"),
        ({"step": "book"}, "step is not known. Did you mean 'seed_step'?"),
        ({"items": "page"}, "items has no effect alone; add from_run"),
        ({"since": "7d"}, "since has no effect alone; add sitemap"),
        ({"key": "id"}, "key has no effect alone; add urls_file"),
        ({"url": 5}, "url must be text or a list of texts, got 5"),
        ({"url": "https://a.test/", "priority": "10"}, "priority must be a whole number from 0 to 9"),
        ({"urls_file": "x.csv", "delimiter": "::"}, "delimiter must be one character, or tab"),
        ({"sitemap": "https://a.test", "since": "soon"}, "since must be a date such as 2026-01-31"),
    ],
)
def test_what_cannot_be_used_says_why(given, said):
    with pytest.raises(InvalidSetting) as caught:
        read_seeds(given)
    assert str(caught.value).startswith(said)


def test_an_error_spells_a_name_as_its_writer_knows_it():
    entry = ProjectScraper("books", "books.py", where="shoal.toml", seeds={"items": "page"})
    with pytest.raises(InvalidSetting) as caught:
        seeds_of(entry)
    place = "shoal.toml: scrapers.books.seeds"
    assert str(caught.value) == f"{place}.items has no effect alone; add {place}.from_run"
